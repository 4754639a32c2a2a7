package figures_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/services/stats/internal/figures"
)

func paid(paymentType string, amount int64) figures.Payment {
	return figures.Payment{Event: at("PAYMENT_CONFIRMED"), PaymentType: paymentType, Currency: "KRW", Amount: amount}
}

func refunded(paymentType, cause string, amount int64) figures.Payment {
	return figures.Payment{Event: at("PAYMENT_REFUNDED"), PaymentType: paymentType, Cause: cause, Currency: "KRW", Amount: amount}
}

// totals returns the figures that the payments add up to.
func totals(payments ...figures.Payment) (f figures.Figures) {
	var d figures.Delta
	for _, p := range payments {
		d.AddPayment(p)
	}
	for k, sum := range d {
		f.Set(figures.ID{Figure: k.Figure, Currency: k.Currency}, sum)
	}
	return f
}

func TestMoneyHasACause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		payment figures.Payment
		want    figures.Figure
	}{
		"a sale":                       {paid("reservation", 7), figures.Sale},
		"no payment type":              {paid("", 7), figures.Sale},
		"a membership":                 {paid("membership", 7), figures.Membership},
		"a transfer":                   {paid("transfer", 7), figures.Transfer},
		"a refund":                     {refunded("reservation", "USER", 7), figures.SaleRefund},
		"by hand":                      {refunded("reservation", "BY_HAND", 7), figures.SaleRefund},
		"a sale that was rejected":     {refunded("reservation", "COMPENSATION", 7), figures.SaleRefund},
		"the seller is paid":           {refunded("reservation", "TRANSFER", 7), figures.TransferPayout},
		"a seller who had bought it":   {refunded("transfer", "TRANSFER", 7), figures.TransferPayout},
		"a transfer that was rejected": {refunded("transfer", "COMPENSATION", 7), figures.TransferReturn},
		"a transferred ticket":         {refunded("transfer", "EVENT_CANCELLED", 7), figures.TransferRefund},
		"a membership given back":      {refunded("membership", "OPERATOR", 7), figures.MembershipRefund},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := figures.Figures{figures.ID{Figure: tt.want, Currency: "KRW"}: {Amount: 7, Times: 1}}
			require.Empty(t, cmp.Diff(want, totals(tt.payment)))
		})
	}
	declined := paid("reservation", 7)
	declined.Type = "PAYMENT_DECLINED"
	require.Equal(t, figures.Figures{figures.ID{Figure: figures.PaymentsDeclined}: {Amount: 1, Times: 1}}, totals(declined), "it moved no money")
	unknown := paid("reservation", 7)
	unknown.Type = "PAYMENT_OF_THE_FUTURE"
	require.Empty(t, totals(unknown))
}

// A sells a ticket bought for 100 to B for 60, and B sells it to C for 50. What B and C pay never
// counts as revenue. Refunds to B and C reduce it.
func TestTransfersAreNoRevenue(t *testing.T) {
	t.Parallel()
	var done []figures.Payment
	for _, step := range []struct {
		why      string
		payments []figures.Payment
		want     figures.Revenue
	}{
		{"A buys", []figures.Payment{paid("reservation", 100)}, figures.Revenue{Confirmed: 100, Payments: 1}},
		{"B pays", []figures.Payment{paid("transfer", 60)}, figures.Revenue{Confirmed: 100, Payments: 1}},
		{"A is paid", []figures.Payment{refunded("reservation", "TRANSFER", 60)}, figures.Revenue{Confirmed: 100, Payments: 1}},
		{
			"C pays, too late, and again", []figures.Payment{paid("transfer", 50), refunded("transfer", "COMPENSATION", 50), paid("transfer", 50)},
			figures.Revenue{Confirmed: 100, Payments: 1},
		},
		{"B is paid", []figures.Payment{refunded("transfer", "TRANSFER", 50)}, figures.Revenue{Confirmed: 100, Payments: 1}},
		{
			"the event is cancelled", []figures.Payment{
				refunded("reservation", "EVENT_CANCELLED", 40), refunded("transfer", "EVENT_CANCELLED", 10), refunded("transfer", "EVENT_CANCELLED", 50),
			}, figures.Revenue{Confirmed: 100, Payments: 1, Refunded: 100, Refunds: 3},
		},
	} {
		done = append(done, step.payments...)
		step.want.Currency = "KRW"
		got := totals(done...).Revenue("KRW")
		require.Equal(t, step.want, got, step.why)
	}
	require.Zero(t, totals(done...).Revenue("KRW").Net(), "all that was paid was given back")
	require.Equal(t, []string{"KRW"}, totals(done...).Currencies())
	require.Zero(t, totals(done...).Revenue("USD").Net())
}

func TestRevenueOfMemberships(t *testing.T) {
	t.Parallel()
	got := totals(paid("membership", 30), paid("reservation", 70), paid("membership", 30), refunded("membership", "OPERATOR", 30)).Revenue("KRW")
	require.Equal(t, figures.Revenue{Currency: "KRW", Confirmed: 130, Payments: 3, Refunded: 30, Refunds: 1}, got)
	require.Equal(t, int64(100), got.Net())
}
