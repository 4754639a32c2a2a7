package mail

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	htmltemplate "html/template"
	"image/png"
	"io"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/boombuler/barcode"
	"github.com/boombuler/barcode/qr"

	"urr.guru/pkg/currency"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
)

//go:embed templates
var files embed.FS

// English is the language of users whose own language is not known.
const English = "en"

// languages has the texts of each language: two templates for each type of notice, "TYPE" and
// "TYPE.subject". Empty lines separate paragraphs. layout makes HTML of the paragraphs.
var (
	languages = map[string]*template.Template{ //nolint:gochecknoglobals // constant
		English: template.Must(template.ParseFS(files, "templates/en.txt")),
		"ko":    template.Must(template.ParseFS(files, "templates/ko.txt")),
	}
	layout = htmltemplate.Must(htmltemplate.ParseFS(files, "templates/layout.html")) //nolint:gochecknoglobals // constant
)

// timeLayouts has the format of times in each language.
var timeLayouts = map[string]string{English: "2 January 2006, 15:04 (MST)", "ko": "2006년 1월 2일 15:04 (MST)"} //nolint:gochecknoglobals // constant

// imageSize is the width and the height of a code's image, in pixels.
const imageSize = 320

// view has the values for the templates.
type view struct {
	Title, Venue, When, FormerWhen string
	Places                         []string
	// Amount is what was paid, or given back; empty: nothing.
	Amount string
	// Seller: the mail is for the seller of the ticket, not for its buyer.
	Seller bool
	// Cancelled: tickets are refunded because the event is cancelled. Owed: of a cancelled event, the
	// user gets money back.
	Cancelled, Owed bool
	// Delay: the postponement is a delay. RefundUntil is the end of full refunds to this user after a
	// postponement; empty: there are none.
	Delay       bool
	RefundUntil string
	// Kind is what a rejected payment was for, Reason why it was rejected.
	Kind, Reason string
	Link         string
	Codes        bool
}

// delayed names the texts of a notice.EventPostponed that is a delay.
const delayed = "EVENT_DELAYED"

// content is the content of one mail.
type content struct {
	subject, text, html string
	codes               []code
}

// code is the image of a ticket's code.
type code struct {
	Place, file string
	png         []byte
}

func (c *code) image() io.Reader { return bytes.NewReader(c.png) }

// URL returns the address of the image within the mail.
func (c code) URL() htmltemplate.URL { return htmltemplate.URL("cid:" + c.file) } //nolint:gosec // our own name

func (s *Sender) compose(d *notice.Delivery, f *notice.Facts) (*content, error) {
	language := d.Language
	if languages[language] == nil {
		language = English
	}
	v, err := s.viewOf(d, f, language)
	if err != nil {
		return nil, err
	}
	c := &content{}
	if f.ContainsTicketCodes && (d.Type == notice.TicketsIssued || d.Type == notice.CodesDue) {
		if c.codes, err = s.codesOf(f.Tickets); err != nil {
			return nil, err
		}
		v.Codes = len(c.codes) > 0
	}
	name := string(d.Type)
	if v.Delay {
		name = delayed
	}
	if c.subject, err = execute(languages[language], name+".subject", v); err != nil {
		return nil, err
	}
	if c.text, err = execute(languages[language], name, v); err != nil {
		return nil, err
	}
	var html bytes.Buffer
	err = layout.Execute(&html, map[string]any{
		"Language": language, "Subject": c.subject, "Paragraphs": strings.Split(c.text, "\n\n"), "Link": v.Link, "Codes": c.codes,
	})
	c.html = html.String()
	return c, err
}

func execute(t *template.Template, name string, v *view) (string, error) {
	var out bytes.Buffer
	err := t.ExecuteTemplate(&out, name, v)
	return strings.TrimSpace(out.String()), err
}

func (s *Sender) viewOf(d *notice.Delivery, f *notice.Facts, language string) (*view, error) {
	zone, err := time.LoadLocation(f.TimeZone)
	if err != nil {
		zone = time.UTC // the database's list of zones is newer than ours
	}
	when := func(t time.Time) string { return t.In(zone).Format(timeLayouts[language]) }
	v := &view{Title: f.Title, Venue: f.Venue, When: when(f.StartsAt), Link: s.settings.PublicURL + "/my"}
	switch d.Type {
	case notice.TicketsIssued, notice.TicketsRefunded, notice.TicketsVoided:
		var o notice.Order
		if err := json.Unmarshal(d.Data, &o); err != nil {
			return nil, err
		}
		v.Amount, v.Cancelled = money(o.Amount, o.Currency), o.Cause == string(refund.EventCancelled)
		for _, p := range o.Tickets {
			v.Places = append(v.Places, placeName(p.Section, p.SeatID))
		}
	case notice.TicketTransferred:
		var p notice.Passed
		if err := json.Unmarshal(d.Data, &p); err != nil {
			return nil, err
		}
		v.Places, v.Amount, v.Seller = []string{placeName(p.Section, p.SeatID)}, money(p.Price, p.Currency), d.UserID == p.SellerID
	case notice.PaymentRejected:
		var p notice.Rejected
		if err := json.Unmarshal(d.Data, &p); err != nil {
			return nil, err
		}
		v.Amount, v.Kind, v.Reason = money(p.Amount, p.Currency), p.Kind, p.Reason
	case notice.EventCancelled, notice.EventPostponed, notice.CodesDue:
		var e notice.Event
		if err := json.Unmarshal(d.Data, &e); err != nil {
			return nil, err
		}
		v.When, v.Delay, v.Owed = when(e.StartsAt), e.Delay, f.Owed
		if e.FormerStartsAt != nil {
			v.FormerWhen = when(*e.FormerStartsAt)
		}
		if !f.FullRefundUntil.IsZero() {
			v.RefundUntil = when(f.FullRefundUntil)
		}
	default:
		return nil, fmt.Errorf("there is no mail for %s", d.Type)
	}
	return v, nil
}

func placeName(section, seatID string) string {
	if seatID != "" {
		return seatID
	}
	return section
}

// money formats an amount in minor units for people; empty for 0.
func money(amount int64, code string) string {
	if amount == 0 {
		return ""
	}
	digits := strconv.FormatInt(amount, 10)
	n := currency.Digits(code)
	if len(digits) <= n {
		digits = strings.Repeat("0", n+1-len(digits)) + digits
	}
	whole, fraction := digits[:len(digits)-n], digits[len(digits)-n:]
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return code + " " + whole + fraction
}

func (s *Sender) codesOf(tickets []ticket.Ticket) (all []code, err error) {
	for i := range tickets {
		signed := s.codes.Code(&tickets[i])
		if signed == "" {
			continue
		}
		drawn, err := qr.Encode(signed, qr.M, qr.Auto)
		if err != nil {
			return nil, err
		}
		scaled, err := barcode.Scale(drawn, imageSize, imageSize)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if err := png.Encode(&out, scaled); err != nil {
			return nil, err
		}
		seat := ""
		if tickets[i].Seat != nil {
			seat = tickets[i].Seat.ID
		}
		all = append(all, code{Place: placeName(tickets[i].Section, seat), file: "ticket-" + strconv.Itoa(len(all)+1) + ".png", png: out.Bytes()})
	}
	return all, nil
}
