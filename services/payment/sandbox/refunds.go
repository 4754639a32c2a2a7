package sandbox

import (
	"time"

	"github.com/google/uuid"
)

// RefundStatus is the status of a refund.
type RefundStatus string

// The statuses of a refund. A pending refund is accepted, and becomes done or failed. A done one
// may still fail, for example if the payer's account is closed: the shop then has the money again.
const (
	RefundPending RefundStatus = "PENDING"
	RefundDone    RefundStatus = "DONE"
	RefundFailed  RefundStatus = "FAILED"
)

// Refund is a refund of a charge.
type Refund struct {
	RefundID       string `json:"refundId"`
	OrderID        string `json:"orderId"`
	IdempotencyKey string `json:"idempotencyKey"`
	// Reference is the shop's own id of the refund; empty if a person made it here.
	Reference string       `json:"reference,omitempty"`
	Amount    int64        `json:"amount"` // minor units
	Status    RefundStatus `json:"status"`
	At        time.Time    `json:"at"`
}

// RefundRequest asks to refund a part of a captured charge.
type RefundRequest struct {
	OrderID        string `json:"-"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	// Amount is in minor units. 0 means all that is left; only a refund by hand may ask for that.
	Amount int64 `json:"amount"`
}

// RefundRules are the provider's rules for one refund.
type RefundRules struct {
	// Status is the status of the new refund: pending or done.
	Status RefundStatus
	// WholeOnly refuses to refund only a part of what is left of the charge.
	WholeOnly bool
	// KeyLife is how long a key is kept; later it makes another refund. 0: for ever.
	KeyLife time.Duration
}

// Refund refunds a part of a captured charge, once per idempotency key while the key is kept. fresh
// is false for a repeated key. Refusals are not kept under the key.
func (l *Ledger) Refund(q RefundRequest, rules RefundRules) (r Refund, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.keptRefund(q.IdempotencyKey, rules.KeyLife); ok {
		if old.OrderID != q.OrderID || old.Amount != q.Amount || old.Reference != q.Reference {
			return Refund{}, false, ErrKeyReused
		}
		return old, false, nil
	}
	c, ok := l.orders[q.OrderID]
	if !ok {
		return Refund{}, false, ErrNotFound
	}
	left := c.Amount - c.RefundedAmount
	if q.Amount == 0 {
		q.Amount = left
	}
	switch {
	case c.Status != Captured:
		return Refund{}, false, ErrNotCaptured
	case q.Amount > left || q.Amount == 0:
		return Refund{}, false, ErrTooMuch
	case rules.WholeOnly && q.Amount < left:
		return Refund{}, false, ErrPartial
	}
	c.RefundedAmount += q.Amount
	r = Refund{
		RefundID: uuid.NewString(), OrderID: q.OrderID, IdempotencyKey: q.IdempotencyKey, Reference: q.Reference,
		Amount: q.Amount, Status: rules.Status, At: l.now(),
	}
	return r, true, l.write(entry{Charge: &c, Refund: &r})
}

// keptRefund returns the refund that was made under a key, if the key is still kept.
func (l *Ledger) keptRefund(key string, life time.Duration) (r Refund, ok bool) {
	r, ok = l.refunds[l.keys[key]]
	return r, ok && (life == 0 || l.now().Before(r.At.Add(life)))
}

// SettleRefund makes a pending refund done or failed, or a done one failed. It returns any other
// refund unchanged. The money of a failed refund can be refunded again.
func (l *Ledger) SettleRefund(refundID string, status RefundStatus) (Refund, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.refunds[refundID]
	if !ok {
		return Refund{}, ErrNotFound
	}
	if r.Status == RefundFailed || r.Status == status || status == RefundPending {
		return r, nil
	}
	e := entry{Refund: &r}
	if r.Status = status; status == RefundFailed {
		c := l.orders[r.OrderID]
		c.RefundedAmount -= r.Amount
		e.Charge = &c
	}
	return r, l.write(e)
}

// Refunds returns the refunds of an order, oldest first, with the order's charge.
func (l *Ledger) Refunds(orderID string) (c Charge, refunds []Refund, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, found = l.orders[orderID]
	refunds = make([]Refund, 0, len(l.byOrder[orderID]))
	for _, id := range l.byOrder[orderID] {
		refunds = append(refunds, l.refunds[id])
	}
	return c, refunds, found
}

// applyRefund applies a refund's new state. If several refunds had the same key, the key returns
// the last one.
func (l *Ledger) applyRefund(r Refund) {
	if _, known := l.refunds[r.RefundID]; !known {
		l.keys[r.IdempotencyKey] = r.RefundID
		l.byOrder[r.OrderID] = append(l.byOrder[r.OrderID], r.RefundID)
	}
	l.refunds[r.RefundID] = r
}
