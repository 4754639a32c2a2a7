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

// TestRefundByHand gives a payment back at the provider, as a person does at its dashboard. All of
// it ends its tickets, and their seats are sold again. A part ends none. In the end the provider
// keeps of each payment what it pays for.
func TestRefundByHand(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	buy := func(seats ...string) (*buyer, reservation, preparedPayment) {
		t.Helper()
		b := letIn(t, p, event)
		held := b.hold(seats...)
		paying := b.prepare(held)
		answer, _ := b.confirm(paying, "ok-"+uuid.NewString())
		require.Equal(t, http.StatusOK, answer.Status, "%s", answer.Body)
		b.awaitStatus(p, held, "CONFIRMED")
		return b, held, paying
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
	p.Eventually(func(ctx context.Context) error { // the last events may be on their way
		faults, err := stores.Faults(ctx, event)
		if all := faults.All(); err == nil && len(all) > 0 {
			err = errors.New(strings.Join(all, "\n"))
		}
		return err
	})
}

// refundByHand refunds at the provider without any reference of the shop; without an amount, all
// that is left.
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
