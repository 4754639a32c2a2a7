package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// A charge of another amount than requested is neither accepted as a payment nor kept.
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
			require.Equal(t, "PENDING", b.get(p).GetStatus(), "not before the money is back")
			got := b.becomes(p, "DECLINED")
			require.Equal(t, "WRONG_AMOUNT", got.GetDeclineCode())
			require.Equal(t, captured, b.provider.Order(p.GetOrderId()).RefundedAmount)
			require.Zero(t, got.GetRefundedAmount(), "it was no payment")
			require.Empty(t, b.eventTypes(p))
			require.Equal(t, 1, b.tickets.Hold(ref).Aborts)

			require.NoError(t, b.webhook("charge.captured", p.GetOrderId()), "again")
			b.sweep(0)
			require.Equal(t, captured, b.provider.Order(p.GetOrderId()).RefundedAmount)
			require.Equal(t, "DECLINED", b.get(p).GetStatus())
		})
	}
}

// A confirmed payment of which the provider reports another amount keeps its money and its ticket
// when the surplus is refunded manually.
func TestConfirmedWrongAmountIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("lost-1")
	const surplus = 50
	b.provider.Capture(p.GetOrderId(), amount+surplus)
	_, err := b.pool.Exec(t.Context(), `UPDATE payments SET status = 'CONFIRMED' WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
	require.NoError(t, err)
	b.provider.RefundManually(p.GetOrderId(), surplus)
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
	b.sweep(0)
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	require.Equal(t, int64(surplus), b.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Zero(t, b.provider.Calls(paymenttest.Refunds))
}

// The same when the charge becomes known after the payment has ended.
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
	require.Empty(t, b.eventTypes(p))
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

// The charge was refunded manually at the provider: the refund is published, and the timeline names
// its origin.
func TestManualRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.confirmed()
	b.provider.RefundManually(p.GetOrderId(), amount)
	b.provider.Fail(paymenttest.Lookups, 1) // followed up later
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
	got := b.becomes(p, "REFUNDED")
	require.Equal(t, amount, got.GetRefundedAmount())
	require.Contains(t, notes(got), manualRefundNote)
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()), "again")
	b.sweep(0)
	events := b.events(p)
	require.Len(t, events, 2)
	require.Equal(t, "PAYMENT_REFUNDED", events[1].GetType())
	require.Equal(t, "OPERATOR", events[1].GetCause())
	require.Equal(t, amount, events[1].GetAmount())
	require.Equal(t, ref, events[1].GetReferenceId())
	require.Zero(t, b.provider.Calls(paymenttest.Refunds))
	var status, provider string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT status, provider_refund_id FROM refunds WHERE payment_id = $1`,
		uuid.MustParse(p.GetPaymentId())).Scan(&status, &provider))
	require.Equal(t, "DONE by hand", status+" "+provider)
}

// The rest of the payment needs a person's decision: nothing changes.
func TestPartialManualRefundChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.confirmed()
	b.provider.RefundManually(p.GetOrderId(), 1000)
	require.NoError(t, b.webhook("charge.refunded", p.GetOrderId()))
	b.sweep(0)
	require.Equal(t, 1, b.provider.Calls(paymenttest.Lookups))
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

// The provider refuses a refund of an already refunded charge: that ends the refund instead of
// repeating it forever.
func TestCompensationAfterManualRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.confirmed()
	b.provider.RefundManually(p.GetOrderId(), amount)
	b.reject(p, "e1")
	got := b.becomes(p, "REFUNDED")
	require.Contains(t, notes(got), manualRefundNote)
	require.Equal(t, amount, b.provider.Order(p.GetOrderId()).RefundedAmount)
	events := b.events(p)
	require.Equal(t, "COMPENSATION", events[len(events)-1].GetCause())
}

// After a partial manual refund the rest needs a person's decision.
func TestCompensationAfterPartialManualRefund(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.confirmed()
	b.provider.RefundManually(p.GetOrderId(), 1000)
	b.reject(p, "e1")
	for range 10 {
		b.sweep(time.Second)
	}
	require.Equal(t, "REFUNDING", b.get(p).GetStatus())
	b.provider.RefundManually(p.GetOrderId(), amount-1000)
	b.becomes(p, "REFUNDED")
}

// The charge was refunded while it was still unknown.
func TestManualRefundOfUnknownCharge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("timeout-1")
	b.provider.RefundManually(p.GetOrderId(), amount)
	b.becomes(p, "REFUNDED")
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, b.eventTypes(p))
}
