package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// A charge of a wrong amount does not count as a payment, and is refunded.
func TestWrongAmountIsRefunded(t *testing.T) {
	t.Parallel()
	for name, captured := range map[string]int64{"less": amount - 1, "more": amount + 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, ref := b.pending("lost-1")
			b.provider.Capture(p.GetOrderId(), captured)
			b.provider.Fail(paymenttest.Refunds, 1)
			require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
			b.sweep(0)
			got := b.get(p)
			require.Equal(t, "DECLINED", got.GetStatus())
			require.Equal(t, "WRONG_AMOUNT", got.GetDeclineCode())
			require.Equal(t, "PENDING", b.refund(p, "COMPENSATION").status)
			b.untilRefund(p, "COMPENSATION", "DONE")
			require.Equal(t, captured, b.provider.Order(p.GetOrderId()).RefundedAmount)
			require.Zero(t, b.get(p).GetRefundedAmount(), "it was no payment")
			require.Equal(t, []string{"PAYMENT_DECLINED"}, b.eventTypes(p))
			require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
			b.requireBalanced(p)

			require.NoError(t, b.webhook("charge.captured", p.GetOrderId()), "again")
			b.sweep(0)
			require.Equal(t, captured, b.provider.Order(p.GetOrderId()).RefundedAmount)
			require.Equal(t, "DECLINED", b.get(p).GetStatus())
		})
	}
}

// If the provider reports too large a charge for a CONFIRMED payment, the payment stays CONFIRMED
// and keeps its ticket, even after a person refunds the surplus.
func TestConfirmedWrongAmountIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("lost-1")
	const surplus = 50
	b.provider.Capture(p.GetOrderId(), amount+surplus)
	b.exec(`UPDATE payments SET status = 'CONFIRMED', captured = amount WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
	b.provider.RefundManually(p.GetOrderId(), surplus)
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
	b.sweep(0)
	b.sweep(0)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	require.Equal(t, int64(surplus), b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Zero(t, b.provider.Calls(paymenttest.Refunds))
}

// A charge of a wrong amount is also refunded if it becomes known after the payment's end.
func TestLateWrongAmountIsRefunded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provider.Fail(paymenttest.Voids, 1)
	p, _ := b.pending("lost-1")
	b.sweep(15 * time.Minute)
	require.Equal(t, "DECLINED", b.get(p).GetStatus())
	b.provider.Capture(p.GetOrderId(), amount-1)
	b.provider.Fail(paymenttest.Refunds, 1)
	require.NoError(t, b.webhook("charge.captured", p.GetOrderId()))
	for range 10 {
		b.sweep(time.Second)
	}
	require.Equal(t, amount-1, b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Equal(t, "NOT_CHARGED", b.get(p).GetDeclineCode())
	require.Equal(t, []string{"PAYMENT_DECLINED"}, b.eventTypes(p))
	b.requireBalanced(p)
}

// If a person has refunded a part of a wrong amount, only the rest is refunded.
func TestWrongAmountLessByHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("lost-1")
	b.provider.Capture(p.GetOrderId(), amount+1000)
	b.provider.RefundManually(p.GetOrderId(), 1000)
	b.sweep(time.Second)
	b.untilRefund(p, "COMPENSATION", "DONE")
	require.Equal(t, amount+1000, b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Equal(t, amount, b.refund(p, "COMPENSATION").send)
	b.requireBalanced(p)
	require.Equal(t, "DONE", b.refund(p, "BY_HAND").status)
	require.Empty(t, b.tickets.Claim(b.refund(p, "BY_HAND").id), "ticket hears of no end of it, so it claims nothing")
}

// notes returns the texts of a payment's timeline.
func notes(p *paymentv1.Payment) []string {
	var all []string
	for _, e := range p.GetTimeline() {
		all = append(all, e.GetNote())
	}
	return all
}

const manualRefundNote = "refunded by hand at the provider"

// If a person refunds the whole charge at the provider, the payment's tickets end, and the timeline
// says that it was done by hand.
func TestManualRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.paid(30000, 25000)
	b.provider.RefundManually(p.GetOrderId(), amount)
	b.provider.Fail(paymenttest.RefundLists, 1) // the sweeper asks again later
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
	got := b.becomes(p, "REFUNDED")
	require.Equal(t, amount, got.GetRefundedAmount())
	require.Contains(t, notes(got), manualRefundNote)
	b.untilRefund(p, "BY_HAND", "DONE")
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()), "again")
	b.sweep(0)
	events := b.events(p)
	require.Len(t, events, 2)
	require.Equal(t, "PAYMENT_REFUNDED", events[1].GetType())
	require.Equal(t, "BY_HAND", events[1].GetCause())
	require.Equal(t, amount, events[1].GetAmount())
	require.Equal(t, ref, events[1].GetReferenceId())
	require.Len(t, events[1].GetItems(), 2)
	require.Zero(t, b.provider.Calls(paymenttest.Refunds))
	b.requireBalanced(p)
}

// If a person refunds a part, no ticket ends: an operator must decide what it is for. Until then
// its money counts for no refund.
func TestPartialManualRefundEndsNoTicket(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.paid(30000, 25000)
	b.provider.RefundManually(p.GetOrderId(), 1000)
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
	b.sweep(0)
	require.Equal(t, 1, b.provider.Calls(paymenttest.RefundLists))
	b.untilRefund(p, "BY_HAND", "DONE")
	got := b.get(p)
	require.Equal(t, "CONFIRMED", got.GetStatus())
	require.EqualValues(t, 1000, got.GetRefundedAmount())
	events := b.events(p)
	require.Len(t, events, 2)
	require.Empty(t, events[1].GetItems())
	require.EqualValues(t, 1000, events[1].GetAmount())
	require.EqualValues(t, 1000, b.count(`SELECT hand - hand_used FROM payments`))
	b.requireBalanced(p)
}

// If the provider refuses a refund because the charge is refunded already, the money given back by
// hand counts for that refund.
func TestCompensationAfterManualRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.confirmed()
	b.provider.RefundManually(p.GetOrderId(), amount)
	b.reject(p, "e1")
	got := b.becomes(p, "REFUNDED")
	require.Contains(t, notes(got), manualRefundNote)
	b.untilRefund(p, "COMPENSATION", "DONE")
	require.Equal(t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
	events := b.events(p)
	require.Len(t, events, 3)
	var sum int64
	for _, e := range events[1:] {
		sum += e.GetAmount()
	}
	require.Equal(t, amount, sum, "the figures count the money once")
	b.requireBalanced(p)
}

// After a partial manual refund only the remaining amount is refunded.
func TestCompensationAfterPartialManualRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.confirmed()
	b.provider.RefundManually(p.GetOrderId(), 1000)
	b.reject(p, "e1")
	b.becomes(p, "REFUNDED")
	require.Equal(t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
	b.untilRefund(p, "COMPENSATION", "DONE")
	require.Equal(t, amount-1000, b.refund(p, "COMPENSATION").send)
	b.requireBalanced(p)
}

// A charge may be refunded by hand while its outcome is still unknown here.
func TestManualRefundOfUnknownCharge(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]int64{"whole": amount, "part": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, _ := b.pending("timeout-1")
			b.provider.RefundManually(p.GetOrderId(), given)
			b.untilRefund(p, "BY_HAND", "DONE")
			want := "CONFIRMED"
			if given == amount {
				want = "REFUNDED"
			}
			require.Equal(t, want, b.get(p).GetStatus())
			require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p))
		})
	}
}
