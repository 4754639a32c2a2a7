package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/internal/payer"
	"urr.guru/scripts/platform"
)

// prepareAt opens the page of a provider.
func (b *buyer) prepareAt(p *harness.Platform, provider string, r reservation) (paying preparedPayment, page string) {
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
		paying, page = got.preparedPayment, got.Page.URL
		return err
	})
	return paying, page
}

// TestProviders lets buyers pay at Stripe and Toss Payments: one goes back, one never does, one has
// a declined card and pays with another one, and one gives the ticket back.
func TestProviders(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	for _, provider := range []string{platform.Stripe, platform.Toss} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			p := p.For(t)
			event := newSale(t, p)
			b := letIn(t, p, event)
			held := b.hold("A-1-1", "A-1-2")
			paying, page := b.prepareAt(p, provider, held)
			require.NoError(t, b.OnPage(t.Context(), page, payer.Back), "whoever goes back may go there again")
			require.NoError(t, b.OnPage(t.Context(), page, payer.Pay))
			b.awaitStatus(p, held, "CONFIRMED")
			require.Equal(t, 2, b.tickets())
			ticket := b.shownTickets()[0].TicketID
			askRefund[refundAnswer](t, b.Client, "/api/v1/payments/"+paying.PaymentID+"/refund", uuid.NewString(), http.StatusAccepted, ticket)
			p.Eventually(func(ctx context.Context) error {
				charges, err := stores.Charges(ctx)
				if c := charges[paying.OrderID]; err == nil && (c.Amount != paying.Amount || c.RefundedAmount != paying.Amount/2) {
					err = fmt.Errorf("the provider has taken %d and given back %d", c.Amount, c.RefundedAmount)
				}
				return err
			})

			other := letIn(t, p, event)
			held = other.hold("A-2-1")
			paying, page = other.prepareAt(p, provider, held)
			require.NoError(t, other.OnPage(t.Context(), page, payer.Decline))
			if provider == platform.Toss { // its decline comes with the charge, and ends the payment
				other.awaitPayment(p, paying, "DECLINED")
				paying, page = other.prepareAt(p, provider, held)
			}
			last := payer.Stay
			if provider == platform.Toss { // nobody shows a payment that nobody has brought back
				last = payer.Pay
			}
			require.NoError(t, other.OnPage(t.Context(), page, last))
			other.awaitPayment(p, paying, "CONFIRMED")
			other.awaitStatus(p, held, "CONFIRMED")
		})
	}
}
