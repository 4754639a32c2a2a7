package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/internal/payer"
	"urr.guru/scripts/platform"
)

// prepareAt prepares a payment at a provider, and returns the URL of its payment page.
func (b *buyer) prepareAt(p *harness.Platform, provider string, r reservation) (payment preparedPayment, page string) {
	b.t.Helper()
	p.Eventually(func(ctx context.Context) error {
		var got struct {
			preparedPayment

			Provider string
			Page     struct{ URL string }
		}
		a, err := b.With("Idempotency-Key", uuid.NewString()).Call(ctx, http.MethodPost, "/api/v1/payments/prepare",
			map[string]any{"paymentType": "reservation", "referenceId": r.ReservationID, "provider": provider})
		if err == nil && (a.Decode(&got) != nil || got.Provider != provider || got.Page.URL == "") {
			err = fmt.Errorf("no page: %d %s", a.Status, a.Body)
		}
		payment, page = got.preparedPayment, got.Page.URL
		return err
	})
	return payment, page
}

// TestProviders lets buyers pay at Stripe and Toss Payments. One buyer goes back before paying, and
// later returns a ticket. The other's card is declined, and at Stripe that buyer never comes back.
func TestProviders(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	for _, provider := range []string{platform.Stripe, platform.Toss} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			p := p.ForTest(t)
			event := newSale(t, p)
			b := newBuyer(t, p, event)
			held := b.hold("A-1-1", "A-1-2")
			payment, page := b.prepareAt(p, provider, held)
			require.NoError(t, b.OnPage(t.Context(), page, payer.Back), "whoever goes back may go there again")
			require.NoError(t, b.OnPage(t.Context(), page, payer.Pay))
			b.awaitStatus(p, held, "CONFIRMED")
			require.Equal(t, 2, b.tickets())
			ticket := b.shownTickets()[0].TicketID
			requestRefund[refundAnswer](t, b.Client, "/api/v1/payments/"+payment.PaymentID+"/refund", uuid.NewString(), http.StatusAccepted, ticket)
			p.Eventually(func(ctx context.Context) error {
				charges, err := stores.Charges(ctx)
				if c := charges[payment.OrderID]; err == nil && (c.Amount != payment.Amount || c.RefundedAmount != payment.Amount/2) {
					err = fmt.Errorf("the provider has taken %d and given back %d", c.Amount, c.RefundedAmount)
				}
				return err
			})

			other := newBuyer(t, p, event)
			held = other.hold("A-2-1")
			payment, page = other.prepareAt(p, provider, held)
			require.NoError(t, other.OnPage(t.Context(), page, payer.Decline))
			if provider == platform.Toss { // Toss declines the charge, which ends the payment
				other.awaitPayment(p, payment, "DECLINED")
				payment, page = other.prepareAt(p, provider, held)
			}
			last := payer.Stay
			if provider == platform.Toss { // Toss charges nothing until the buyer comes back
				last = payer.Pay
			}
			require.NoError(t, other.OnPage(t.Context(), page, last))
			other.awaitPayment(p, payment, "CONFIRMED")
			other.awaitStatus(p, held, "CONFIRMED")
		})
	}
}

// TestKeyOfAnotherOrder confirms an order with the payment key, and with the return, of another
// buyer's order at Toss Payments, which binds keys to orders. The key still pays its own order.
func TestKeyOfAnotherOrder(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	event := newSale(t, p)
	honest, cheat := newBuyer(t, p, event), newBuyer(t, p, event)
	own, page := honest.prepareAt(p, platform.Toss, honest.hold("A-1-1"))
	foreign, _ := cheat.prepareAt(p, platform.Toss, cheat.hold("A-1-2"))
	address, err := payer.Choose(t.Context(), page, payer.Pay)
	require.NoError(t, err)
	back, err := url.Parse(address)
	require.NoError(t, err)

	params := back.Query()
	params.Set("order", foreign.OrderID)
	params.Set("orderId", foreign.OrderID)
	a, err := cheat.Call(t.Context(), http.MethodGet, back.Path+"?"+params.Encode(), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, a.Status, "%s", a.Body)
	a, _ = cheat.confirm(foreign, params.Get("paymentKey"))
	require.Contains(t, string(a.Body), `"PENDING"`, "until the order can no longer be charged")

	a, err = honest.Call(t.Context(), http.MethodGet, back.RequestURI(), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, a.Status, "%s", a.Body)
	honest.awaitPayment(p, own, "CONFIRMED")
	cheat.awaitPayment(p, foreign, "PENDING")
	charges, err := stores.Charges(t.Context())
	require.NoError(t, err)
	require.Equal(t, own.Amount, charges[own.OrderID].Amount)
	require.NotContains(t, charges, foreign.OrderID)
	require.Zero(t, cheat.tickets())
}
