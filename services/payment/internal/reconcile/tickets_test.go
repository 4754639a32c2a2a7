package reconcile_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/reconcile"
)

func TestCompareTickets(t *testing.T) {
	t.Parallel()
	type sides struct {
		here  reconcile.PaymentWithRefunds
		there payment.Settled
	}
	rejected := func(b *sides) { b.there = payment.Settled{PaymentID: b.there.PaymentID, Rejected: "HOLD_EXPIRED"} }
	unsettled := func(b *sides) { b.there = payment.Settled{} }
	compensated := func(b *sides) {
		b.here.Refunds = []payment.Refund{{Cause: payment.Compensation, Status: payment.RefundDone, Send: 1000}}
		b.here.Payment.Refunded, b.here.Payment.Status = 1000, payment.Refunded
	}
	declined := func(b *sides) { b.here.Payment.Status, b.here.Payment.Captured = payment.Declined, 0 }
	for name, tc := range map[string]struct {
		change []func(*sides)
		want   reconcile.Kind
		moves  bool
	}{
		"equal": {},
		"given back in part, and owed": {change: []func(*sides){func(b *sides) {
			b.here.Payment.Refunded, b.there.Kept = 300, 500
			b.here.Refunds = []payment.Refund{{Status: payment.RefundDone, Send: 300}, {Status: payment.RefundHeld, Send: 200}}
		}}},
		"whole": {change: []func(*sides){func(b *sides) {
			b.here.Payment.Refunded, b.here.Payment.Status, b.there.Kept = 1000, payment.Refunded, 0
		}}},
		"by hand, unassigned": {change: []func(*sides){func(b *sides) { b.here.Payment.Refunded, b.here.Payment.RefundedByHand = 400, 400 }}},
		"free": {change: []func(*sides){func(b *sides) {
			b.here.Payment.Amount, b.here.Payment.Captured, b.there.Paid, b.there.Kept = 0, 0, 0, 0
		}}},
		"rejected and given back":  {change: []func(*sides){rejected, compensated}},
		"declined":                 {change: []func(*sides){declined, unsettled}},
		"declined, another amount": {change: []func(*sides){declined, unsettled, func(b *sides) { b.here.Payment.Captured = 900 }}},

		"no tickets":          {change: []func(*sides){unsettled}, want: reconcile.TicketsMissing},
		"rejected, not given": {change: []func(*sides){rejected}, want: reconcile.TicketsMissing, moves: true},
		"no payment": {
			change: []func(*sides){func(b *sides) { b.here = reconcile.PaymentWithRefunds{} }}, want: reconcile.TicketsUnpaid,
		},
		"not paid":            {change: []func(*sides){declined}, want: reconcile.TicketsUnpaid},
		"paid, given back":    {change: []func(*sides){compensated}, want: reconcile.TicketsUnpaid},
		"being charged":       {change: []func(*sides){func(b *sides) { b.here.Payment.Status = payment.Confirming }}, want: reconcile.TicketsUnpaid, moves: true},
		"another amount":      {change: []func(*sides){func(b *sides) { b.there.Paid++ }}, want: reconcile.TicketsAmount},
		"another currency":    {change: []func(*sides){func(b *sides) { b.there.Currency = "USD" }}, want: reconcile.TicketsAmount},
		"another user":        {change: []func(*sides){func(b *sides) { b.there.UserID = "thief" }}, want: reconcile.TicketsAmount},
		"a refund of nothing": {change: []func(*sides){func(b *sides) { b.here.Payment.Refunded = 300 }}, want: reconcile.TicketsAmount, moves: true},
		"a promise not kept":  {change: []func(*sides){func(b *sides) { b.there.Kept = 700 }}, want: reconcile.TicketsAmount, moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := uuid.New()
			b := &sides{
				here: reconcile.PaymentWithRefunds{Payment: payment.Payment{
					ID: id, UserID: "ann", Amount: 1000, Captured: 1000, Currency: "KRW", Status: payment.Confirmed,
				}},
				there: payment.Settled{PaymentID: id, UserID: "ann", Paid: 1000, Kept: 1000, Currency: "KRW"},
			}
			for _, change := range tc.change {
				change(b)
			}
			d := reconcile.CompareTickets(id, b.there, b.here)
			if tc.want == "" {
				require.Nil(t, d)
				return
			}
			require.NotNil(t, d)
			require.Equal(t, []any{tc.want, tc.moves, id.String(), reconcile.Ticket}, []any{d.Kind, d.Moves, d.OrderID, d.Provider})
			require.NotEqual(t, d.Ours, d.Theirs)
		})
	}
}
