package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// TestRefundByHand refunds payments at the provider, as a person does on its dashboard. A full
// refund ends the tickets, and their seats are sold again. A partial refund ends none. In the end
// the provider keeps the price of what each payment still pays for.
func TestRefundByHand(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	buy := func(seats ...string) (*buyer, reservation, preparedPayment) {
		t.Helper()
		b := newBuyer(t, p, event)
		held := b.hold(seats...)
		payment := b.prepare(held)
		answer, _ := b.confirm(payment, "ok-"+uuid.NewString())
		require.Equal(t, http.StatusOK, answer.Status, "%s", answer.Body)
		b.awaitStatus(p, held, "CONFIRMED")
		return b, held, payment
	}
	whole, wholeHeld, wholePaid := buy("A-1-1", "A-1-2")
	part, partHeld, partPaid := buy("A-1-5", "A-1-6")
	refundByHand(t, p, wholePaid, `{}`)
	refundByHand(t, p, partPaid, `{"amount":1}`)

	whole.awaitStatus(p, wholeHeld, "REFUNDED")
	whole.awaitPayment(p, wholePaid, "REFUNDED")
	requireCharged(t, p, wholePaid, wholePaid.Amount)
	awaitSold(p, event, 2)
	buy("A-1-1", "A-1-2")
	awaitSold(p, event, 4)
	requireCharged(t, p, partPaid, 1)
	part.awaitStatus(p, partHeld, "CONFIRMED")

	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	p.Eventually(func(ctx context.Context) error { // the last Kafka events may be in transit
		faults, err := stores.Faults(ctx, event)
		if all := faults.All(); err == nil && len(all) > 0 {
			err = errors.New(strings.Join(all, "\n"))
		}
		return err
	})
}

// refundByHand refunds a charge at the provider, without a reference of the shop. A body without an
// amount refunds all that is left.
func refundByHand(t *testing.T, p *harness.Platform, paid preparedPayment, body string) {
	t.Helper()
	url := fmt.Sprintf("http://%s/v1/charges/%s/refunds/by-hand", p.Service(platform.Sandbox).Addr(0), paid.OrderID)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}
