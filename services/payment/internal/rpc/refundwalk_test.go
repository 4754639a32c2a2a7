package rpc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/faults"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/sandbox"
)

// refundWalk is a run of random requests, faults and refunds by hand on a few payments.
type refundWalk struct {
	*bundle

	rand     *rand.Rand
	payments []*paymentv1.PrepareResponse
	applied  map[string]int // events that the ticket service has applied, by order
}

// Whatever is requested, refused, lost, late or refunded by hand: in the end every payment agrees
// with the provider, and no refund is left unfinished.
func TestRefundWalks(t *testing.T) {
	t.Parallel()
	eachSeed(t, 6, func(t *testing.T, seed uint64) {
		t.Helper()
		w := &refundWalk{bundle: setup(t), rand: rand.New(rand.NewPCG(seed, 1)), applied: map[string]int{}}
		for range 3 {
			p, _ := w.paid(20000, 20000, 15000)
			w.payments = append(w.payments, p)
		}
		for i := range 80 {
			w.act(fmt.Sprint("act ", i))
		}
		w.settle()
	})
}

// act does one random thing.
func (w *refundWalk) act(key string) {
	w.t.Helper()
	p := w.payments[w.rand.IntN(len(w.payments))]
	switch w.rand.IntN(18) {
	case 0, 1:
		w.request(p, key, payment.ByUser)
	case 2:
		w.request(p, key, payment.ByOperator)
	case 3:
		if w.rand.IntN(4) == 0 {
			w.promise(p, key)
		}
	case 4:
		w.byHand(p)
	case 5:
		if refunds := w.provider.RefundsOf(p.GetOrderId()); len(refunds) > 0 {
			r := refunds[w.rand.IntN(len(refunds))]
			if r.Reference != "" { // a refund by hand that fails is not modelled
				w.provider.SettleRefund(r.RefundID, sandbox.RefundFailed)
				require.NoError(w.t, w.webhook("refund.failed", p.GetOrderId()))
			}
		}
	case 6:
		w.decideHeld()
	case 7, 8, 9:
		w.fail()
	case 16, 17:
		w.assignByHand(p, key)
	case 10, 11:
		w.pass(time.Duration(w.rand.IntN(30)) * time.Hour)
	default:
		w.pass(time.Duration(w.rand.IntN(90)) * time.Second)
	}
	w.deliver()
}

// pass lets time pass. A delayed call takes effect less than a minute after it was sent, as every
// call does.
func (w *refundWalk) pass(d time.Duration) {
	w.t.Helper()
	soon := min(d, 30*time.Second)
	w.sweep(soon)
	w.provider.Arrive()
	w.sweep(d - soon)
}

func (w *refundWalk) request(p *paymentv1.PrepareResponse, key string, cause payment.Cause) {
	q := payment.RefundRequest{
		PaymentID: uuid.MustParse(p.GetPaymentId()), Cause: cause, Reason: "walk", Scope: payment.RefundScope{UserID: user}, IdempotencyKey: key,
	}
	if w.rand.IntN(3) > 0 {
		tickets := w.tickets.Of(p.GetPaymentId())
		q.Scope.TicketIDs = []uuid.UUID{uuid.MustParse(tickets[w.rand.IntN(len(tickets))].ID)}
	}
	if _, _, err := w.service.RequestRefund(w.t.Context(), q); err != nil {
		require.ErrorIs(w.t, err, payment.ErrNotRefundable)
	}
}

// byHand refunds a part, or all that is left, as a person does at the provider.
func (w *refundWalk) byHand(p *paymentv1.PrepareResponse) {
	w.t.Helper()
	charge := w.provider.Order(p.GetOrderId())
	left := charge.Amount - charge.RefundedAmount
	if left == 0 {
		return
	}
	given := left
	if w.rand.IntN(2) == 0 {
		given = 1 + w.rand.Int64N(left)
	}
	w.provider.RefundManually(p.GetOrderId(), given)
	if w.rand.IntN(3) > 0 { // otherwise the webhook is lost
		require.NoError(w.t, w.webhook("charge.refunded", p.GetOrderId()))
	}
}

// assignByHand says what money by hand was for: a ticket, or a part of it for none.
func (w *refundWalk) assignByHand(p *paymentv1.PrepareResponse, key string) {
	w.t.Helper()
	q := payment.RefundRequest{
		PaymentID: uuid.MustParse(p.GetPaymentId()), Cause: payment.ByHand, Scope: payment.RefundScope{UserID: "op"}, IdempotencyKey: key,
	}
	if w.rand.IntN(3) == 0 {
		q.Scope.Goodwill = 1 + w.rand.Int64N(10000)
	} else {
		q.Scope.TicketIDs = []uuid.UUID{uuid.MustParse(w.ticketID(p, w.rand.IntN(3)))}
	}
	_, _, err := w.service.RequestRefund(w.t.Context(), q)
	for range w.rand.IntN(2) { // again
		_, _, err = w.service.RequestRefund(w.t.Context(), q)
	}
	if err != nil {
		require.ErrorIs(w.t, err, payment.ErrNothingByHand)
	}
}

// decideHeld retries or resolves a HELD refund, as an operator does.
func (w *refundWalk) decideHeld() {
	w.t.Helper()
	var id uuid.UUID
	err := w.pool.QueryRow(w.t.Context(), `SELECT id FROM refunds WHERE status = 'HELD' ORDER BY id LIMIT 1`).Scan(&id)
	if err != nil {
		return // none is held
	}
	byHand := w.rand.IntN(2) == 0
	if w.rand.IntN(2) == 0 {
		_, err = w.service.RetryRefund(w.t.Context(), id, nil)
	} else {
		_, err = w.service.ResolveRefund(w.t.Context(), id, byHand, "paid by a person")
	}
	if !byHand || !errors.Is(err, payment.ErrNotPaidByHand) {
		require.NoError(w.t, err)
	}
}

// fail makes a random call fail in a random way.
func (w *refundWalk) fail() {
	switch w.rand.IntN(7) {
	case 0:
		w.provider.Fail(paymenttest.Refunds, 1)
	case 1:
		w.provider.Lose(paymenttest.Refunds, 1+w.rand.IntN(3))
	case 2:
		w.provider.Delay(paymenttest.Refunds, 1)
		w.sweep(0)
	case 3:
		w.provider.Fail(paymenttest.RefundLists, 1)
	case 4:
		w.tickets.Fail("BeginRefundAnswer", errs.ErrUnavailable)
	case 5:
		w.tickets.Fail("AbortRefund", errs.ErrUnavailable)
	case 6:
		w.provider.SetFaults(sandbox.Faults{
			Seed: w.rand.Uint64(), WholeOnly: w.rand.IntN(4) == 0, Refused: 0.3, Pending: 0.3, SettleFor: faults.Duration(24 * time.Hour),
		})
	}
}

// deliver applies the published events at the ticket service, in order.
func (w *refundWalk) deliver() {
	w.t.Helper()
	for _, p := range w.payments {
		events := w.events(p)
		for _, e := range events[w.applied[p.GetOrderId()]:] {
			require.Empty(w.t, w.tickets.Apply(e))
		}
		w.applied[p.GetOrderId()] = len(events)
	}
}

// settle ends all faults, sweeps until no refund is unfinished, and checks all sums.
func (w *refundWalk) settle() {
	w.t.Helper()
	w.provider.SetFaults(sandbox.Faults{})
	for _, call := range []string{paymenttest.Refunds, paymenttest.RefundLists} {
		w.provider.Fail(call, 0)
		w.provider.Lose(call, 0)
		w.provider.Delay(call, 0)
	}
	w.provider.Arrive()
	w.tickets.Fail("BeginRefundAnswer")
	w.tickets.Fail("AbortRefund")
	for _, p := range w.payments {
		for _, r := range w.provider.RefundsOf(p.GetOrderId()) {
			if r.Status == sandbox.RefundPending {
				w.provider.SettleRefund(r.RefundID, sandbox.RefundDone)
			}
		}
		require.NoError(w.t, w.webhook("charge.refunded", p.GetOrderId()))
	}
	undone := `SELECT count(*) FROM refunds WHERE status IN ('REQUESTED', 'PENDING', 'ACCEPTED') OR abort_due`
	for hour := 0; hour < 100 && (hour < 3 || w.count(undone) > 0); hour++ {
		w.sweep(time.Hour)
		w.deliver()
	}
	require.Zero(w.t, w.count(undone))
	for _, p := range w.payments {
		w.requireBalanced(p)
		for _, x := range w.tickets.Of(p.GetPaymentId()) {
			claimed := w.count(`SELECT count(*) FROM refunds r JOIN refund_items i ON i.refund_id = r.id
				WHERE i.ticket_id = $1 AND r.status = 'HELD' AND NOT r.published`, uuid.MustParse(x.ID))
			require.Equal(w.t, claimed > 0, x.Status == "REFUNDING", "ticket is %s", x.Status)
		}
	}
}
