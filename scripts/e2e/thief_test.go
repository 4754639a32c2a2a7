package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

// check asks for the user's place in the line of an event once, and returns its status.
func check(ctx context.Context, c *harness.Client, event string) (status string, err error) {
	var place struct{ Status string }
	a, err := c.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+event, map[string]any{})
	if err == nil && a.Status == http.StatusOK {
		err = a.Decode(&place)
	}
	return place.Status, err
}

// TestPlacesComeBackToTheLine: a user buys all places and gives them back, and cannot hold them again
// before somebody else may. The sold-out event's line keeps its visitors, and the first one buys.
func TestPlacesComeBackToTheLine(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event, spec := "e2e-"+uuid.NewString()[:8], saleSpec()
	spec["maxPerUser"], spec["returnWithin"] = 2, 3
	spec["sections"] = []map[string]any{{"section": "A", "price": 55000, "rows": 1, "seatsPerRow": 2}}
	p.Operator().MustCall(t.Context(), http.MethodPut, "/api/v1/admin/events/"+event, spec, nil)
	thief := newBuyer(t, p, event)
	held := thief.hold("A-1-1", "A-1-2")
	paid := thief.prepare(held)
	thief.confirm(paid, "ok-"+uuid.NewString())
	thief.awaitStatus(p, held, "CONFIRMED")
	thief.awaitStatusAt(p, "/api/v1/events/"+event, "SOLD_OUT")

	var waiter *harness.Client
	p.Eventually(func(ctx context.Context) error { // the line hears within seconds that nothing is left
		waiter = p.Client("user-" + uuid.NewString()[:8])
		status, err := check(ctx, waiter, event)
		if err == nil && (status == "active" || status == "") {
			err = fmt.Errorf("the line of a sold-out event says %q", status)
		}
		return err
	})
	requestRefund[refundAnswer](t, thief.Client, "/api/v1/payments/"+paid.PaymentID+"/refund", uuid.NewString(), http.StatusAccepted)
	thief.awaitPayment(p, paid, "REFUNDED")
	again := map[string]any{"eventId": event, "section": "A", "quantity": 1}
	a, err := thief.With("Idempotency-Key", uuid.NewString()).Call(t.Context(), http.MethodPost, "/api/v1/reservations", again)
	require.NoError(t, err)
	require.GreaterOrEqual(t, a.Status, 400, "%s", a.Body)

	p.Eventually(func(ctx context.Context) error {
		status, err := check(ctx, waiter, event)
		if err == nil && status != "active" {
			err = fmt.Errorf("the waiter is %s", status)
		}
		return err
	})
	p.Eventually(func(ctx context.Context) error {
		a, err := waiter.With("Idempotency-Key", uuid.NewString()).Call(ctx, http.MethodPost, "/api/v1/reservations", again)
		if err == nil && a.Status != http.StatusCreated {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
	requireNoFaults(t, p, event)
}

// TestPausesAndBlocks: who holds places again and again without paying reads how long to wait, and who
// is blocked does not pay for what was held before.
func TestPausesAndBlocks(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	b := newBuyer(t, p, event)
	for range 3 {
		r := b.hold("A-1-1")
		b.MustCall(t.Context(), http.MethodDelete, "/api/v1/my/reservations/"+r.ReservationID, nil, nil)
	}
	var problem struct {
		Code       string
		RetryAfter int64
	}
	a, err := b.With("Idempotency-Key", uuid.NewString()).Call(t.Context(), http.MethodPost, "/api/v1/seats/reserve",
		map[string]any{"eventId": event, "seatIds": []string{"A-1-1"}})
	require.NoError(t, err)
	require.NoError(t, a.Decode(&problem))
	require.Equal(t, []any{http.StatusTooManyRequests, "HOLD_PAUSED"}, []any{a.Status, problem.Code})
	require.InDelta(t, 20, problem.RetryAfter, 10)

	bad := newBuyer(t, p, event)
	held := bad.hold("A-1-2")
	p.Operator().MustCall(t.Context(), http.MethodPost, "/api/v1/queue/admin/"+event+"/block", map[string]any{"userId": bad.user}, nil)
	bad.awaitStatus(p, held, "CANCELLED")
	requireRefused(t, bad.With("Idempotency-Key", uuid.NewString()), "/api/v1/payments/prepare",
		map[string]any{"paymentType": "reservation", "referenceId": held.ReservationID}, http.StatusConflict, "NOT_PAYABLE")
	requireNoFaults(t, p, event)
}
