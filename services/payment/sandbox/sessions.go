package sandbox

import (
	"crypto/rand"
	"errors"
	"regexp"
	"time"

	"github.com/google/uuid"
)

// SessionState is the state of a payer's page.
type SessionState string

// The states of a session. All but SessionOpen are final.
const (
	SessionOpen    SessionState = "OPEN"
	SessionUsed    SessionState = "USED"    // the payer has chosen, and there is a payment key
	SessionExpired SessionState = "EXPIRED" // the payer has not chosen in time
	SessionClosed  SessionState = "CLOSED"  // the order was voided
)

// Session is a page on which the payer chooses, once, how a payment will end. It charges nothing:
// it only makes the payment key.
type Session struct {
	SessionID      string       `json:"sessionId"`
	OrderID        string       `json:"orderId"`
	Amount         int64        `json:"amount"` // minor units
	Currency       string       `json:"currency"`
	ReturnURL      string       `json:"returnUrl"`
	IdempotencyKey string       `json:"idempotencyKey"`
	ExpiresAt      time.Time    `json:"expiresAt"`
	State          SessionState `json:"state"`
	PaymentKey     string       `json:"paymentKey,omitempty"`
}

// SessionRequest is a request to open a session.
type SessionRequest struct {
	OrderID        string `json:"orderId"`
	Amount         int64  `json:"amount"`
	Currency       string `json:"currency"`
	ReturnURL      string `json:"returnUrl"` // the address to which the payer is sent back
	Seconds        int64  `json:"seconds"`   // the time until the session expires
	IdempotencyKey string `json:"idempotencyKey"`
}

// errSessionEnded means that the payer can choose nothing any more.
var errSessionEnded = errors.New("the session has ended")

// returnURLs matches valid return addresses. Their origins are put into a header unescaped.
var returnURLs = regexp.MustCompile(`^https?://[A-Za-z0-9.:\[\]-]+/[^\s#]*$`)

func (q SessionRequest) valid() bool {
	return q.OrderID != "" && q.IdempotencyKey != "" && q.Amount > 0 && len(q.Currency) == 3 && q.Seconds > 0 && returnURLs.MatchString(q.ReturnURL)
}

// OpenSession opens a session, once per idempotency key.
func (l *Ledger) OpenSession(q SessionRequest) (Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.sessions[l.sessionKeys[q.IdempotencyKey]]; ok {
		if old.OrderID != q.OrderID || old.Amount != q.Amount || old.Currency != q.Currency || old.ReturnURL != q.ReturnURL {
			return Session{}, ErrKeyReused
		}
		return l.current(old), nil
	}
	s := Session{
		SessionID: rand.Text(), OrderID: q.OrderID, Amount: q.Amount, Currency: q.Currency, ReturnURL: q.ReturnURL,
		IdempotencyKey: q.IdempotencyKey, ExpiresAt: l.now().Add(time.Duration(q.Seconds) * time.Second), State: SessionOpen,
	}
	return s, l.write(entry{Session: &s})
}

// Session returns a session, or ErrNotFound.
func (l *Ledger) Session(id string) (Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session(id)
}

func (l *Ledger) session(id string) (Session, error) {
	s, ok := l.sessions[id]
	if !ok {
		return Session{}, ErrNotFound
	}
	return l.current(s), nil
}

// current returns s with its current state: closed if its order was voided, or expired.
func (l *Ledger) current(s Session) Session {
	switch {
	case s.State != SessionOpen:
	case l.orders[s.OrderID].Status == Voided:
		s.State = SessionClosed
	case !l.now().Before(s.ExpiresAt):
		s.State = SessionExpired
	}
	return s
}

// UseSession makes the payment key of a session: prefix and a random id. A session that is not open
// any more is returned with errSessionEnded.
func (l *Ledger) UseSession(id, prefix string) (Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.session(id)
	if err != nil {
		return s, err
	}
	if s.State != SessionOpen {
		return s, errSessionEnded
	}
	s.State, s.PaymentKey = SessionUsed, prefix+uuid.NewString()
	return s, l.write(entry{Session: &s})
}

// foreignKey reports whether a page has made the payment key of o for another order or amount. A key
// that no page has made, such as ok-1, is good for any order.
func (l *Ledger) foreignKey(o Order) bool {
	s, made := l.sessions[l.sessionOfKey[o.PaymentKey]]
	return made && (s.OrderID != o.OrderID || s.Amount != o.Amount || s.Currency != o.Currency)
}

// SessionOf returns the latest session of an order; the zero Session if there is none.
func (l *Ledger) SessionOf(orderID string) Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current(l.sessions[l.sessionOf[orderID]])
}

func (l *Ledger) applySession(s Session) {
	l.sessions[s.SessionID] = s
	l.sessionKeys[s.IdempotencyKey], l.sessionOf[s.OrderID] = s.SessionID, s.SessionID
	if s.PaymentKey != "" {
		l.sessionOfKey[s.PaymentKey] = s.SessionID
	}
}
