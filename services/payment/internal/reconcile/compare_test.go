package reconcile_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/reconcile"
)

var (
	order  = uuid.NewString()
	refund = uuid.New()
)

// paid returns a payment of 1000, of which the refund "re" has given back 300.
func paid() *reconcile.PaymentWithRefunds {
	return &reconcile.PaymentWithRefunds{
		Payment: payment.Payment{ID: uuid.New(), OrderID: order, Currency: "KRW", Status: payment.Confirmed, ChargeID: "ch", Captured: 1000, Refunded: 300},
		Refunds: []payment.Refund{{ID: refund, Status: payment.RefundDone, Cause: payment.ByUser, Send: 300, ProviderID: "re"}},
	}
}

// account returns the entries of the provider's account that agree with paid.
func account() []payment.LedgerEntry {
	return []payment.LedgerEntry{
		{Kind: payment.LedgerCapture, OrderID: order, ID: "ch", Amount: 1000, Currency: "KRW"},
		{Kind: payment.LedgerRefund, OrderID: order, ID: "re", RefundID: refund, Amount: 300, State: payment.ProviderDone},
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	type sides struct {
		here  *reconcile.PaymentWithRefunds
		there []payment.LedgerEntry
		part  bool   // the entries are only one day of the order
		order string // empty: an order of this service
	}
	status := func(s payment.Status) func(*sides) {
		return func(b *sides) {
			b.here.Payment.Status, b.here.Payment.Captured, b.here.Payment.ChargeID, b.here.Payment.Refunded = s, 0, "", 0
			b.here.Refunds, b.there = nil, b.there[:1]
		}
	}
	refundIs := func(s payment.RefundStatus, id string, refunded int64) func(*sides) {
		return func(b *sides) {
			b.here.Refunds[0].Status, b.here.Refunds[0].ProviderID, b.here.Payment.Refunded = s, id, refunded
		}
	}
	fails := func(b *sides) { b.there[1].State = payment.ProviderFailed }
	byHand := func(b *sides) { b.there[1].RefundID = uuid.Nil }
	adopted := func(s payment.RefundStatus, refunded int64) func(*sides) {
		return func(b *sides) { refundIs(s, "re", refunded)(b); b.here.Refunds[0].Cause = payment.ByHand }
	}
	for name, tc := range map[string]struct {
		change []func(*sides)
		want   []reconcile.Kind
		moves  bool
	}{
		"equal":           {},
		"not whole":       {change: []func(*sides){func(b *sides) { b.part, b.there = true, nil }}},
		"accepted, done":  {change: []func(*sides){refundIs(payment.RefundAccepted, "re", 300)}},
		"nothing at all":  {change: []func(*sides){status(payment.Expired), func(b *sides) { b.there = nil }}},
		"wrong amount":    {change: []func(*sides){func(b *sides) { b.here.Payment.Status, b.here.Payment.Amount = payment.Declined, 900 }}},
		"of another shop": {change: []func(*sides){func(b *sides) { b.here, b.order = nil, "1234" }}},

		"no payment": {
			change: []func(*sides){func(b *sides) { b.here = nil }},
			want:   []reconcile.Kind{reconcile.CaptureUnknown, reconcile.RefundUnknown},
		},
		"declined":     {change: []func(*sides){status(payment.Declined)}, want: []reconcile.Kind{reconcile.CaptureOnlyThere}},
		"expired":      {change: []func(*sides){status(payment.Expired)}, want: []reconcile.Kind{reconcile.CaptureOnlyThere}},
		"open":         {change: []func(*sides){status(payment.Open)}, want: []reconcile.Kind{reconcile.CaptureOnlyThere}},
		"confirming":   {change: []func(*sides){status(payment.Confirming)}, want: []reconcile.Kind{reconcile.CaptureOnlyThere}, moves: true},
		"unknown":      {change: []func(*sides){status(payment.Unknown)}, want: []reconcile.Kind{reconcile.CaptureOnlyThere}, moves: true},
		"other amount": {change: []func(*sides){func(b *sides) { b.there[0].Amount++ }}, want: []reconcile.Kind{reconcile.CaptureAmount}},
		"other currency": {
			change: []func(*sides){func(b *sides) { b.there[0].Currency = "USD" }}, want: []reconcile.Kind{reconcile.CaptureAmount},
		},
		"currency not told": {change: []func(*sides){func(b *sides) { b.there[0].Currency = "" }}},
		"captured twice": {
			change: []func(*sides){func(b *sides) {
				b.there = append(b.there, payment.LedgerEntry{Kind: payment.LedgerCapture, ID: "ch2", Amount: 1000, Currency: "KRW"})
			}},
			want: []reconcile.Kind{reconcile.CaptureTwice},
		},
		"not captured": {
			change: []func(*sides){func(b *sides) { b.there = nil }}, want: []reconcile.Kind{reconcile.CaptureOnlyHere, reconcile.RefundOnlyHere},
		},

		"refund missing":     {change: []func(*sides){func(b *sides) { b.there = b.there[:1] }}, want: []reconcile.Kind{reconcile.RefundOnlyHere}},
		"refund of no row":   {change: []func(*sides){func(b *sides) { b.here.Refunds, b.here.Payment.Refunded = nil, 0 }}, want: []reconcile.Kind{reconcile.RefundUnknown}},
		"refund by hand":     {change: []func(*sides){byHand, func(b *sides) { b.here.Refunds, b.here.Payment.Refunded = nil, 0 }}, want: []reconcile.Kind{reconcile.RefundUnknown}},
		"adopted":            {change: []func(*sides){byHand, adopted(payment.RefundRequested, 300)}},
		"by hand in vain":    {change: []func(*sides){byHand, fails, func(b *sides) { b.here.Refunds, b.here.Payment.Refunded = nil, 0 }}},
		"by hand, fails":     {change: []func(*sides){byHand, adopted(payment.RefundDone, 300), fails}, want: []reconcile.Kind{reconcile.RefundState}},
		"by hand, failed":    {change: []func(*sides){byHand, adopted(payment.RefundFailed, 0), fails}},
		"other refund":       {change: []func(*sides){func(b *sides) { b.there[1].Amount++ }}, want: []reconcile.Kind{reconcile.RefundAmount}},
		"failed there":       {change: []func(*sides){fails}, want: []reconcile.Kind{reconcile.RefundState}},
		"failed, held":       {change: []func(*sides){fails, refundIs(payment.RefundHeld, "re", 0)}},
		"failed, paid":       {change: []func(*sides){fails, refundIs(payment.RefundResolved, "re", 0)}},
		"failed, tried anew": {change: []func(*sides){fails, refundIs(payment.RefundPending, "", 0)}},
		"given, held here":   {change: []func(*sides){refundIs(payment.RefundHeld, "", 0)}, want: []reconcile.Kind{reconcile.RefundState}},
		"given, refused":     {change: []func(*sides){refundIs(payment.RefundRefused, "", 0)}, want: []reconcile.Kind{reconcile.RefundState}},
		"given, resolved":    {change: []func(*sides){refundIs(payment.RefundResolved, "", 0)}, want: []reconcile.Kind{reconcile.RefundState}},
		"given, pending":     {change: []func(*sides){refundIs(payment.RefundPending, "", 0)}, want: []reconcile.Kind{reconcile.RefundState}, moves: true},
		"pending, not given": {change: []func(*sides){refundIs(payment.RefundPending, "", 0), func(b *sides) { b.there = b.there[:1] }}},
		"refunded twice": {
			change: []func(*sides){func(b *sides) { second := b.there[1]; second.ID = "re2"; b.there = append(b.there, second) }},
			want:   []reconcile.Kind{reconcile.RefundTwice},
		},
		"sum":             {change: []func(*sides){func(b *sides) { b.here.Payment.Refunded = 299 }}, want: []reconcile.Kind{reconcile.RefundSum}},
		"sum, not whole":  {change: []func(*sides){func(b *sides) { b.here.Payment.Refunded, b.part = 299, true }}, want: []reconcile.Kind{reconcile.RefundSum}},
		"nothing to send": {change: []func(*sides){refundIs(payment.RefundDone, "", 0), func(b *sides) { b.here.Refunds[0].Send, b.there = 0, b.there[:1] }}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &sides{here: paid(), there: account(), order: order}
			for _, change := range tc.change {
				change(b)
			}
			found := reconcile.Compare(reconcile.ProviderOrder{Provider: "sandbox", OrderID: b.order, Entries: b.there, Complete: !b.part}, b.here)
			var kinds []reconcile.Kind
			for _, d := range found {
				kinds = append(kinds, d.Kind)
				require.Equal(t, tc.moves, d.Moves)
				require.NotEmpty(t, d.Ours)
				require.NotEmpty(t, d.Theirs)
				require.Equal(t, b.order, d.OrderID)
			}
			require.Equal(t, tc.want, kinds)
		})
	}
}
