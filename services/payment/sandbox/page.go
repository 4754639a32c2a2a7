package sandbox

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

//go:embed page.html
var pageSource string

// pageStyle is the page's only style. The Content-Security-Policy allows it by its hash.
const pageStyle = `body{font:1.1rem/1.5 sans-serif;margin:0}main{max-width:30rem;margin:2rem auto;padding:0 1rem}` +
	`dt{color:#555}dd{margin:0 0 .5rem;overflow-wrap:anywhere}button{font:inherit;width:100%;padding:.7rem}`

//nolint:gochecknoglobals // constants
var (
	pageTemplate = template.Must(template.New("page").Parse(pageSource))
	pageText     = map[string]map[string]string{"en": {
		"title": "Sandbox provider", "nothing": "This provider is for tests. No money moves.",
		"merchant": "Merchant", "order": "Order", "amount": "Amount", "toShop": "Back to the shop", "other": "한국어", "otherLang": "ko",
		"approve": "Pay", "decline": "Pay with a card that is declined", "slow": "Pay, with a late answer to the shop",
		"stay": "Pay, and do not go back to the shop", "back": "Go back without paying",
		"stayed": "You have paid. Close this page: your browser does not go back to the shop.",
		"USED":   "This page was used already.", "EXPIRED": "The time to pay on this page is over.", "CLOSED": "The shop has ended this payment.",
	}, "ko": {
		"title": "샌드박스 결제사", "nothing": "테스트용 결제사입니다. 실제로 결제되지 않습니다.",
		"merchant": "가맹점", "order": "주문", "amount": "금액", "toShop": "상점으로 돌아가기", "other": "English", "otherLang": "en",
		"approve": "결제하기", "decline": "거절되는 카드로 결제하기", "slow": "결제하기 (상점에 늦게 응답)",
		"stay": "결제하고 상점으로 돌아가지 않기", "back": "결제하지 않고 돌아가기",
		"stayed": "결제되었습니다. 이 창을 닫아 주세요. 상점으로 돌아가지 않습니다.",
		"USED":   "이미 사용된 결제 페이지입니다.", "EXPIRED": "결제 시간이 지났습니다.", "CLOSED": "상점이 이 결제를 종료했습니다.",
	}}
	// choices has the buttons, and the prefix of the payment key that each one makes.
	choices = []struct{ name, prefix string }{{"approve", "ok-"}, {"decline", "decline-"}, {"slow", "slow-"}, {"stay", "ok-"}, {"back", ""}}
)

type pageButton struct{ Name, Label string }

type pageData struct {
	Lang, Merchant, Amount, Message, Back string
	Text                                  map[string]string
	Style                                 template.CSS
	Session                               Session
	Choices                               []pageButton
}

// openSession opens a page for the payer of an order.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	var q SessionRequest
	if !decode(w, r, &q) {
		return
	}
	if !q.valid() {
		refuse(w, http.StatusBadRequest, "orderId, idempotencyKey, amount, currency, seconds and returnUrl, an http address, are required")
		return
	}
	session, err := s.ledger.OpenSession(q)
	if err != nil {
		s.refuse(w, err)
		return
	}
	answer(w, http.StatusOK, session)
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) {
	session, err := s.ledger.Session(r.PathValue("sessionId"))
	if err != nil {
		s.refuse(w, err)
		return
	}
	answer(w, http.StatusOK, session)
}

// showPage shows the payer the buttons, or why there are none.
func (s *Server) showPage(w http.ResponseWriter, r *http.Request) {
	session, err := s.ledger.Session(r.PathValue("sessionId"))
	switch {
	case err != nil:
		http.NotFound(w, r)
	case session.State == SessionOpen:
		s.writePage(w, r, http.StatusOK, session, "")
	default:
		s.writePage(w, r, http.StatusGone, session, string(session.State))
	}
}

// choose makes the payment key for the payer's choice, and sends the payer with it to the session's
// ReturnURL. Going back without paying leaves the page open.
func (s *Server) choose(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("sessionId")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	choice := r.PostFormValue("choice")
	prefix, known := prefixOf(choice)
	if !known {
		refuse(w, http.StatusBadRequest, "unknown choice")
		return
	}
	if prefix == "" {
		session, err := s.ledger.Session(id)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		sendBack(w, session.ReturnURL)
		return
	}
	session, err := s.ledger.UseSession(id, prefix)
	switch {
	case errors.Is(err, ErrNotFound):
		http.NotFound(w, r)
		return
	case errors.Is(err, errSessionEnded):
		s.writePage(w, r, http.StatusGone, session, string(session.State))
		return
	case err != nil:
		s.refuse(w, err)
		return
	}
	s.background(func(ctx context.Context) {
		s.webhooks.deliver(ctx, "session.completed", Charge{OrderID: session.OrderID, Amount: session.Amount, Currency: session.Currency})
	})
	if choice == "stay" {
		s.writePage(w, r, http.StatusOK, session, "stayed")
		return
	}
	sendBack(w, withKey(session.ReturnURL, session.PaymentKey))
}

func prefixOf(choice string) (prefix string, known bool) {
	for _, c := range choices {
		if c.name == choice {
			return c.prefix, true
		}
	}
	return "", false
}

func sendBack(w http.ResponseWriter, address string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// withKey adds a payment key to the address to which the payer goes back.
func withKey(returnURL, key string) string {
	separator := "?"
	if strings.Contains(returnURL, "?") {
		separator = "&"
	}
	return returnURL + separator + url.Values{"paymentKey": {key}}.Encode()
}

// writePage writes the page with its choices, or with a message instead.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, status int, session Session, message string) {
	back, err := url.Parse(session.ReturnURL)
	if err != nil {
		s.refuse(w, err)
		return
	}
	lang := language(r)
	text := pageText[lang]
	data := pageData{
		Lang: lang, Text: text, Session: session, Merchant: back.Host, Amount: money(session.Amount, session.Currency), Style: pageStyle,
		Message: text[message],
	}
	if message != "stayed" {
		data.Back = session.ReturnURL
	}
	for _, c := range choices {
		data.Choices = append(data.Choices, pageButton{Name: c.name, Label: text[c.name]})
	}
	sum := sha256.Sum256([]byte(pageStyle))
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	// A redirect after the form is sent counts as form-action too.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
		"'; form-action 'self' "+back.Scheme+"://"+back.Host+"; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	if err := pageTemplate.Execute(w, data); err != nil {
		s.log.WarnContext(r.Context(), "page not sent", "error", err)
	}
}

// language returns the page's language: the parameter lang, or else what the browser prefers.
func language(r *http.Request) string {
	if lang := r.URL.Query().Get("lang"); pageText[lang] != nil {
		return lang
	}
	for item := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		lang, _, _ := strings.Cut(strings.TrimSpace(item), ";")
		lang, _, _ = strings.Cut(strings.ToLower(lang), "-")
		if pageText[lang] != nil {
			return lang
		}
	}
	return "en"
}

// money formats an amount of minor units, such as 55,000 KRW or 12.50 USD.
func money(amount int64, currency string) string {
	whole, fraction := strconv.FormatInt(amount, 10), ""
	if currency != "KRW" && currency != "JPY" {
		whole, fraction = strconv.FormatInt(amount/100, 10), "."+strconv.FormatInt(100+amount%100, 10)[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + fraction + " " + currency
}
