package rpc_test

import (
	"context"
	"errors"
	"sync"

	"urr.guru/services/payment/internal/payment"
)

// withDesk gives the provider a page that it can be asked about.
func withDesk(d *desk) func(*bundle) {
	return func(b *bundle) {
		b.publicURL = publicURL
		b.wrap = func(p payment.Provider) payment.Provider {
			d.Provider = p
			return d
		}
	}
}

// desk is a provider that knows of its pages: whoever pays on one authorises the payment, which is
// charged later or cancelled.
type desk struct {
	payment.Provider

	mu         sync.Mutex
	authorized map[string]bool // by order
	cancels    int
	failing    int // the number of next calls of Cancel that fail
}

func newDesk() *desk { return &desk{authorized: map[string]bool{}} }

func (d *desk) authorize(orderID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.authorized[orderID] = true
}

func (d *desk) isAuthorized(orderID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.authorized[orderID]
}

func (d *desk) Open(ctx context.Context, p payment.Payment) (payment.Page, error) {
	page, err := d.Provider.Open(ctx, p)
	page.Ref = "page-" + p.OrderID
	return page, err
}

func (d *desk) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	out, err := d.Provider.Ask(ctx, p)
	switch {
	case err != nil || out.State != payment.Absent:
	case d.isAuthorized(p.OrderID):
		out.State, out.Key = payment.Authorized, "ok-authorized"
	default:
		out.State = payment.Waiting
	}
	return out, err
}

func (d *desk) Cancel(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	d.mu.Lock()
	d.cancels++
	if d.failing > 0 {
		d.failing--
		d.mu.Unlock()
		return payment.Outcome{}, errors.New("the provider is away")
	}
	d.mu.Unlock()
	out, err := d.Provider.Cancel(ctx, p)
	if err == nil {
		d.mu.Lock()
		delete(d.authorized, p.OrderID)
		d.mu.Unlock()
	}
	return out, err
}
