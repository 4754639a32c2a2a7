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

	requireNoFaults(t, p, event)
}

// requireNoFaults waits until the audit of a sale finds no faults in the stores.
func requireNoFaults(t *testing.T, p *harness.Platform, event string) {
	t.Helper()
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	p.Eventually(func(ctx context.Context) error {
		faults, err := stores.Faults(ctx, event)
		if all := faults.All(); err == nil && len(all) > 0 {
			err = errors.New(strings.Join(all, "\n"))
		}
		return err
	})
}

// shownOrder has what an operator sees of the first payment of an order.
type shownOrder struct {
	Payments []struct {
		ByHand, ByHandUsed, Goodwill, Unassigned int64
		Refunds                                  []struct{ RefundID, Cause, Status, Reason string }
	}
}

// awaitByHand waits until this amount of money by hand of an order is unassigned, and the tickets
// that refunds by hand have ended are known.
func awaitByHand(p *harness.Platform, held reservation, unassigned int64) (o shownOrder) {
	p.Eventually(func(ctx context.Context) error {
		a, err := p.Operator().Call(ctx, http.MethodGet, "/api/v1/admin/orders/"+held.ReservationID, nil)
		if err == nil {
			err = a.Decode(&o)
		}
		if err != nil {
			return err
		}
		if len(o.Payments) != 1 || o.Payments[0].Unassigned != unassigned {
			return fmt.Errorf("the order is %+v", o)
		}
		for _, r := range o.Payments[0].Refunds {
			if r.Cause == "BY_HAND" && r.Status == "REQUESTED" {
				return fmt.Errorf("its tickets are not known: %+v", r)
			}
		}
		return nil
	})
	return o
}

// TestPartByHandIsNotPaidTwice refunds one of two tickets at the provider, as a hotline does on its
// dashboard. If the buyer then returns that ticket, the refund is held, and ends as paid. In another
// order an operator names the ticket, and in a third one calls the money goodwill.
func TestPartByHandIsNotPaidTwice(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	const price = 55000
	buy := func(seats ...string) (b *buyer, held reservation, paid preparedPayment, ticketID string) {
		t.Helper()
		b = newBuyer(t, p, event)
		held = b.hold(seats...)
		paid = b.prepare(held)
		b.confirm(paid, "ok-"+uuid.NewString())
		b.awaitStatus(p, held, "CONFIRMED")
		refundByHand(t, p, paid, fmt.Sprintf(`{"amount":%d}`, price))
		awaitByHand(p, held, price)
		return b, held, paid, b.shownTickets()[0].TicketID
	}
	act := func(path string, body any) {
		t.Helper()
		p.Operator().With("Idempotency-Key", uuid.NewString()).MustCall(t.Context(), http.MethodPost, path, body, nil)
	}

	b, held, paid, ticketID := buy("A-1-1", "A-1-2")
	requestRefund[refundAnswer](t, b.Client, "/api/v1/payments/"+paid.PaymentID+"/refund", uuid.NewString(), http.StatusAccepted, ticketID)
	var refundID string
	p.Eventually(func(context.Context) error {
		for _, r := range awaitByHand(p, held, price).Payments[0].Refunds {
			if r.Cause == "USER" && r.Status == "HELD" && r.Reason == "BY_HAND" {
				refundID = r.RefundID
				return nil
			}
		}
		return errors.New("the refund is not held")
	})
	requireCharged(t, p, paid, price)
	act("/api/v1/admin/refunds/"+refundID+"/resolve", map[string]any{"paidOtherwise": false, "note": "the hotline gave it back"})
	b.awaitStatusAt(p, "/api/v1/my/tickets/"+ticketID, "REFUNDED")
	awaitByHand(p, held, 0)
	requireCharged(t, p, paid, price)

	b, held, paid, ticketID = buy("A-1-3", "A-1-4")
	byHand := "/api/v1/admin/payments/" + paid.PaymentID + "/by-hand"
	act(byHand, map[string]any{"ticketIds": []string{ticketID}})
	b.awaitStatusAt(p, "/api/v1/my/tickets/"+ticketID, "REFUNDED")
	require.EqualValues(t, price, awaitByHand(p, held, 0).Payments[0].ByHandUsed)
	requireCharged(t, p, paid, price)
	a, err := p.Operator().With("Idempotency-Key", uuid.NewString()).Call(t.Context(), http.MethodPost, byHand, map[string]any{"goodwill": 1, "note": "again"})
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, a.Status)
	require.Contains(t, string(a.Body), "NOTHING_BY_HAND")

	b, held, paid, ticketID = buy("A-1-5", "A-1-6")
	act("/api/v1/admin/payments/"+paid.PaymentID+"/by-hand", map[string]any{"goodwill": price, "note": "late doors"})
	require.EqualValues(t, price, awaitByHand(p, held, 0).Payments[0].Goodwill)
	b.awaitStatusAt(p, "/api/v1/my/tickets/"+ticketID, "VALID")
	awaitSold(p, event, 4)
	requireNoFaults(t, p, event)
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
