// Package sandbox is a payment provider for development and tests: an HTTP server with a ledger.
// The prefix of the payment key decides whether a charge is captured, declined, answered late or
// never answered; the buttons of the payment page make such keys. Audits compare the services with
// this ledger. The payment service uses only the HTTP API, through internal/sandbox.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Status is the status of a charge.
type Status string

// The statuses. A pending charge becomes captured, declined or voided. A declined order may be
// charged again. A captured or voided order never changes.
const (
	Pending  Status = "PENDING"
	Captured Status = "CAPTURED"
	Declined Status = "DECLINED"
	Voided   Status = "VOIDED"
)

// The errors of a Ledger.
var (
	ErrNotFound    = errors.New("no such charge")
	ErrCaptured    = errors.New("the order is captured already")
	ErrNotCaptured = errors.New("the order is not captured")
	ErrTooMuch     = errors.New("refunds would exceed the charge")
	ErrPartial     = errors.New("this charge can be refunded as a whole only")
	ErrDisputed    = errors.New("the charge is disputed")
	errNotNow      = errors.New("the refund is not possible at present")
	ErrKeyReused   = errors.New("idempotency key was used for another request")
)

// Charge is the latest charge of one order.
type Charge struct {
	ChargeID       string    `json:"chargeId"`
	OrderID        string    `json:"orderId"`
	PaymentKey     string    `json:"paymentKey"`
	IdempotencyKey string    `json:"idempotencyKey"`
	Amount         int64     `json:"amount"` // minor units
	Currency       string    `json:"currency"`
	Status         Status    `json:"status"`
	DeclineCode    string    `json:"declineCode,omitempty"`
	RefundedAmount int64     `json:"refundedAmount"`
	At             time.Time `json:"at"`
}

// Order is a request to charge.
type Order struct {
	PaymentKey     string `json:"paymentKey"`
	OrderID        string `json:"orderId"`
	Amount         int64  `json:"amount"`
	Currency       string `json:"currency"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// entry is a line of the ledger's file: a charge, a refund, both, or a session, in its new state.
type entry struct {
	Charge  *Charge  `json:"charge,omitempty"`
	Refund  *Refund  `json:"refund,omitempty"`
	Session *Session `json:"session,omitempty"`
}

// Ledger has all charges, refunds and sessions. Its methods are safe for concurrent use. They write
// changes to the file before they return.
type Ledger struct {
	mu       sync.Mutex
	file     *os.File
	orders   map[string]Charge   // the last charge of each order
	attempts map[string]Charge   // the last state of each charge, by idempotency key
	refunds  map[string]Refund   // by refund id
	keys     map[string]string   // idempotency key → id of its last refund
	byOrder  map[string][]string // ids of an order's refunds, oldest first

	sessions     map[string]Session // by session id
	sessionKeys  map[string]string  // idempotency key → session id
	sessionOf    map[string]string  // order → id of its last session
	sessionOfKey map[string]string  // payment key → id of the session that made it

	now func() time.Time
}

// Open reads a ledger's file, or creates it. now is the clock of charges, refunds and webhooks.
func Open(path string, now func() time.Time) (*Ledger, error) {
	l := &Ledger{
		orders: map[string]Charge{}, attempts: map[string]Charge{}, refunds: map[string]Refund{}, keys: map[string]string{},
		byOrder: map[string][]string{}, sessions: map[string]Session{}, sessionKeys: map[string]string{}, sessionOf: map[string]string{},
		sessionOfKey: map[string]string{}, now: now,
	}
	file, err := openJournal(path, l.apply)
	if err != nil {
		return nil, err
	}
	l.file = file
	return l, nil
}

func (l *Ledger) Close() error { return l.file.Close() }

// Attempt returns the result of an earlier request with the same idempotency key, if any.
func (l *Ledger) Attempt(o Order) (c Charge, found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempt(o)
}

func (l *Ledger) attempt(o Order) (c Charge, found bool, err error) {
	old, ok := l.attempts[o.IdempotencyKey]
	if ok && (old.OrderID != o.OrderID || old.Amount != o.Amount || old.Currency != o.Currency || old.PaymentKey != o.PaymentKey) {
		return Charge{}, false, ErrKeyReused
	}
	return old, ok, nil
}

// Charge charges an order with the result Pending, Captured or Declined (with a code). With a
// repeated idempotency key it returns the first result, and fresh is false. A charge of a voided
// order is declined, and so is one with the key that a page has made for another order.
func (l *Ledger) Charge(o Order, status Status, declineCode string) (c Charge, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, found, err := l.attempt(o); found || err != nil {
		return old, false, err
	}
	c = Charge{
		ChargeID: uuid.NewString(), OrderID: o.OrderID, PaymentKey: o.PaymentKey, IdempotencyKey: o.IdempotencyKey,
		Amount: o.Amount, Currency: o.Currency, Status: status, DeclineCode: declineCode, At: l.now(),
	}
	switch l.orders[o.OrderID].Status {
	case Captured, Pending:
		return Charge{}, false, ErrCaptured
	case Voided:
		// The attempt is declined, the order stays voided.
		c.Status, c.DeclineCode = Declined, "ORDER_VOIDED"
		l.attempts[o.IdempotencyKey] = c
		return c, true, nil
	case Declined: // may be charged again
	}
	if l.foreignKey(o) {
		c.Status, c.DeclineCode = Declined, "KEY_OF_ANOTHER_ORDER"
	}
	return c, true, l.write(entry{Charge: &c})
}

// Settle captures or declines a pending order. It returns any other order unchanged.
func (l *Ledger) Settle(orderID string, status Status, declineCode string) (Charge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.orders[orderID]
	if !ok {
		return Charge{}, ErrNotFound
	}
	if c.Status != Pending {
		return c, nil
	}
	c.Status, c.DeclineCode, c.At = status, declineCode, l.now()
	return c, l.write(entry{Charge: &c})
}

// Void makes any later charge of the order impossible. It fails with ErrCaptured if it is captured.
func (l *Ledger) Void(orderID string) (Charge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.orders[orderID]
	switch c.Status {
	case Captured:
		return Charge{}, ErrCaptured
	case Voided:
		return c, nil
	case Pending, Declined: // or an unknown order
	}
	c.OrderID, c.Status, c.DeclineCode, c.At = orderID, Voided, "", l.now()
	return c, l.write(entry{Charge: &c})
}

func (l *Ledger) Get(orderID string) (Charge, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.orders[orderID]
	return c, ok
}

// All returns every order and refund, oldest first.
func (l *Ledger) All() ([]Charge, []Refund) {
	l.mu.Lock()
	defer l.mu.Unlock()
	charges := make([]Charge, 0, len(l.orders))
	for _, c := range l.orders {
		charges = append(charges, c)
	}
	refunds := make([]Refund, 0, len(l.refunds))
	for _, r := range l.refunds {
		refunds = append(refunds, r)
	}
	slices.SortFunc(charges, func(a, b Charge) int { return a.At.Compare(b.At) })
	slices.SortFunc(refunds, func(a, b Refund) int { return a.At.Compare(b.At) })
	return charges, refunds
}

// write writes an entry to the file, then applies it. The caller holds the lock.
func (l *Ledger) write(e entry) error {
	if err := appendJournal(l.file, e); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	l.apply(e)
	return nil
}

func (l *Ledger) apply(e entry) {
	if c := e.Charge; c != nil {
		l.orders[c.OrderID] = *c
		if c.IdempotencyKey != "" {
			l.attempts[c.IdempotencyKey] = *c
		}
	}
	if e.Refund != nil {
		l.applyRefund(*e.Refund)
	}
	if e.Session != nil {
		l.applySession(*e.Session)
	}
}
