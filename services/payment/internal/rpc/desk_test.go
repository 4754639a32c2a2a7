package rpc_test

import (
	"context"
	"errors"
	"sync"

	"urr.guru/services/payment/internal/payment"
)

// withAuthorizer gives the service d as its provider.
func withAuthorizer(d *authorizer) func(*bundle) {
	return func(b *bundle) {
		b.publicURL = publicURL
		b.wrap = func(p payment.Provider) payment.Provider {
			d.Provider = p
			return d
		}
	}
}

// authorizer is a provider that can be asked whether a page was paid. Paying on a page only
// authorises the payment, which is charged or cancelled later.
type authorizer struct {
	payment.Provider

	mu         sync.Mutex
	authorized map[string]bool // whether the page was paid, by order
	cancels    int
	failing    int // how many of the next calls of Cancel fail
}

func newAuthorizer() *authorizer { return &authorizer{authorized: map[string]bool{}} }

func (d *authorizer) authorize(orderID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.authorized[orderID] = true
}

func (d *authorizer) isAuthorized(orderID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.authorized[orderID]
}

func (d *authorizer) Open(ctx context.Context, p payment.Payment) (payment.Page, error) {
	page, err := d.Provider.Open(ctx, p)
	page.Ref = "page-" + p.OrderID
	return page, err
}

func (d *authorizer) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
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

func (d *authorizer) Cancel(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
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
