// Package mail sends notices by SMTP.
package mail

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gomail "github.com/wneessen/go-mail"

	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/ticket"
)

// The ways to protect the connection to the mail server.
const (
	StartTLS = "starttls" // the server must support it
	Implicit = "implicit" // TLS from the first byte
	None     = "none"     // for servers on the same host
)

// maxError is the most bytes of an error's text that are stored.
const maxError = 200

// The names of the lanes of mails about one order, and of mails to everybody with a ticket of an
// event. Webhooks have names in lower case.
const (
	Lane      = "E-MAIL"
	LaneToAll = "E-MAIL-TO-ALL"
)

// Settings has the settings of the mail server and of the mails.
type Settings struct {
	Addr, User, Password string
	TLS                  string
	From                 string
	// PublicURL is the gateway's address in browsers.
	PublicURL string
	// Trust replaces the configuration of TLS in tests; nil in production.
	Trust *tls.Config
}

// Source reads the data that a mail shows in addition to its notice.
type Source interface {
	Facts(ctx context.Context, eventID, userID string) (notice.Facts, error)
}

// Sender sends mails, each by a connection of its own.
type Sender struct {
	settings Settings
	password atomic.Pointer[string]
	domain   string
	source   Source
	codes    *ticket.Service
}

// NewSender makes a Sender. The settings must be valid. codes signs the codes of tickets.
func NewSender(s Settings, source Source, codes *ticket.Service) (*Sender, error) {
	from, err := mail.ParseAddress(s.From)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	m := &Sender{settings: s, source: source, codes: codes, domain: from.Address[strings.LastIndexByte(from.Address, '@')+1:]}
	m.SetPassword(s.Password)
	return m, nil
}

// SetPassword replaces the password for the mail server.
func (s *Sender) SetPassword(password string) { s.password.Store(&password) }

// Lanes returns the lanes that send mails.
func (s *Sender) Lanes() []notice.Lane {
	send := func(ctx context.Context, d *notice.Delivery) notice.Outcome { return outcome(s.send(ctx, d)) }
	return []notice.Lane{{ID: notice.MailsOfOrders, Name: Lane, Send: send}, {ID: notice.MailsToAll, Name: LaneToAll, Send: send}}
}

func (s *Sender) send(ctx context.Context, d *notice.Delivery) error {
	facts, err := s.source.Facts(ctx, d.EventID, d.UserID)
	if err != nil {
		return err
	}
	content, err := s.compose(d, &facts)
	if err != nil {
		return err
	}
	m := gomail.NewMsg()
	if err := errors.Join(m.From(s.settings.From), m.To(d.Email)); err != nil {
		return fmt.Errorf("%w: %w", errAddress, err)
	}
	m.Subject(content.subject)
	m.SetMessageIDWithValue(messageID(d, s.domain))
	m.SetDateWithValue(d.CreatedAt)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, content.text)
	m.AddAlternativeString(gomail.TypeTextHTML, content.html)
	for _, c := range content.codes {
		if err := m.EmbedReader(c.file, c.image(), gomail.WithFileContentID(c.file), gomail.WithFileContentType("image/png")); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the connection
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, m)
	switch {
	case m.IsDelivered(): // only the end of the connection failed
		return nil
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	default:
		return err
	}
}

// messageID returns the same id at every attempt, so that a repeated mail can be recognised.
func messageID(d *notice.Delivery, domain string) string {
	userHash := sha256.Sum256([]byte(d.UserID))
	return d.ID.String() + "." + hex.EncodeToString(userHash[:8]) + "@" + domain
}

func (s *Sender) client(ctx context.Context) (*gomail.Client, error) {
	host, port, err := net.SplitHostPort(s.settings.Addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	opts := []gomail.Option{gomail.WithPort(n), gomail.WithTLSPolicy(gomail.TLSMandatory)}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.settings.Trust != nil {
		tlsConfig = s.settings.Trust.Clone()
	}
	tlsConfig.ServerName = host
	opts = append(opts, gomail.WithTLSConfig(tlsConfig))
	dial := dialer(ctx)
	switch s.settings.TLS {
	case Implicit:
		// Only with this policy does the library accept that the dialer has encrypted the connection.
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
		dial = encrypted(dial, tlsConfig)
	case None:
		opts = append(opts, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	opts = append(opts, gomail.WithDialContextFunc(dial))
	if deadline, ok := ctx.Deadline(); ok {
		opts = append(opts, gomail.WithTimeout(max(time.Until(deadline), time.Millisecond)))
	}
	if s.settings.User != "" {
		opts = append(opts, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.settings.User), gomail.WithPassword(*s.password.Load()))
	}
	return gomail.NewClient(host, opts...)
}

// dialer dials connections that close when ctx ends, since the library limits only each step.
func dialer(ctx context.Context) gomail.DialContextFunc {
	return func(dialCtx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(dialCtx, network, addr)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
}

// encrypted returns a dial function that adds TLS to the connections of dial, from the first byte.
func encrypted(dial gomail.DialContextFunc, tlsConfig *tls.Config) gomail.DialContextFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, tlsConfig)
		return conn, conn.HandshakeContext(ctx)
	}
}

// errAddress means that no mail can be sent to the address.
var errAddress = errors.New("the address is not valid")

// outcome converts an attempt's error. The outcome is Final if the recipient can never get mails,
// but not if the server only cannot accept mails now. It is stored, so it contains no address.
func outcome(err error) (o notice.Outcome) {
	if err == nil {
		return o
	}
	var refused *gomail.SendError
	switch {
	case errors.Is(err, errAddress):
		return notice.Outcome{Error: errAddress.Error(), Final: true}
	case errors.As(err, &refused) && (refused.ErrorCode() != 0 || !errors.Is(err, context.DeadlineExceeded)):
		o.Status = refused.ErrorCode()
		o.Error = refused.Reason.String()
		o.Final = refused.Reason == gomail.ErrSMTPRcptTo && o.Status/100 == 5
	case errors.Is(err, context.DeadlineExceeded):
		o.Error = "no answer in time"
	default:
		o.Error = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxError)], "")
	}
	return o
}
