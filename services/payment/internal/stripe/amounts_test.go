package stripe_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/currency"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
)

// The digits of Stripe's amounts, from docs.stripe.com/currencies; other currencies have two.
var (
	stripeZero  = strings.Fields("BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF")
	stripeThree = strings.Fields("BHD JOD KWD OMR TND")
	notTaken    = strings.Fields("BOV BTN CHE CHW CLF COU CUP ERN GHS IQD IRR KPW LYD MRU MXV SDG SSP STN SVC SYP TMT USN UYI UYW VED VES XAD ZWG")
)

func stripeDigits(code string) int {
	switch {
	case slices.Contains(stripeZero, code):
		return 0
	case slices.Contains(stripeThree, code):
		return 3
	default:
		return 2
	}
}

func power(digits int) int64 { return int64(math.Pow10(digits)) }

// A payment of 5,000 units of each currency of ISO 4217 is the same amount at Stripe, on all ways
// out and in.
func TestEveryCurrency(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	began, taken := b.clock.Now(), b.Capabilities().Currencies
	for _, code := range currency.Codes() {
		id := uuid.New()
		p := payment.Payment{
			ID: id, OrderID: id.String(), Amount: 5000 * power(currency.Digits(code)), Currency: code, Description: title, Attempt: 1, ExpiresAt: b.clock.Now().Add(time.Minute),
		}
		_, ok := taken[code]
		require.Equal(t, !slices.Contains(notTaken, code), ok, code)
		page, err := b.Open(t.Context(), p)
		if !ok {
			_ = requireNotTaken(t, err)
			continue
		}
		require.NoError(t, err, code)
		p.Ref = page.Ref
		b.choose(page.URL, fake.Pay)
		out, err := b.Charge(t.Context(), p, payment.Outcome{})
		require.NoError(t, err, code)
		require.Equal(t, p.Amount, out.Amount, code)
		require.Equal(t, 5000*power(stripeDigits(code)), b.fake.Order(p.OrderID).Received, code)
		p.ChargeID = out.ChargeID
		answer, err := b.Refund(t.Context(), refundCall(p, b, "0", p.Amount/5))
		require.NoError(t, err, code)
		require.Equal(t, payment.ProviderDone, answer.State)
		require.Equal(t, 1000*power(stripeDigits(code)), b.fake.Order(p.OrderID).Refunded, code)
		report, err := b.AskRefunds(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, []int64{p.Amount, p.Amount / 5}, []int64{report.Captured, report.Refunds[0].Amount}, code)
		require.Equal(t, p.Amount/5, b.asks(p, payment.Captured).Refunded, code)
	}
	for cursor, last := "", false; !last; last = cursor == "" {
		entries, next, err := b.List(t.Context(), began, began.Add(time.Hour), cursor)
		require.NoError(t, err)
		cursor = next
		for _, e := range entries {
			want := 5000 * power(currency.Digits(e.Currency))
			if e.Kind == payment.LedgerRefund {
				want /= 5
			}
			require.Equal(t, want, e.Amount, e.Currency)
		}
	}
}

// Stripe cannot express every amount, nor does it take every amount.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	limits := b.Capabilities().Currencies
	for code, want := range map[string]payment.Limits{
		"KRW": {Smallest: 50, Largest: 999_999_999_999, Step: 1}, "USD": {Smallest: 50, Largest: 999_999_999_999, Step: 1},
		"ISK": {Smallest: 1, Largest: 9_999_999_999, Step: 1}, "UGX": {Smallest: 1, Largest: 9_999_999_999, Step: 1},
		"KWD": {Smallest: 10, Largest: 999_999_999_999, Step: 10}, "MGA": {Smallest: 100, Largest: 99_999_999_999_900, Step: 100},
	} {
		require.Equal(t, want, limits[code], code)
	}
	_, err := b.Open(t.Context(), payment.Payment{ID: uuid.New(), OrderID: "o", Amount: 5124, Currency: "KWD", Description: title, ExpiresAt: b.clock.Now()})
	_ = requireNotTaken(t, err)
	p := b.captured()
	p.Currency = "KWD"
	answer, err := b.Refund(t.Context(), refundCall(p, b, "0", 5))
	require.NoError(t, err)
	require.Equal(t, payment.ProviderRefused, answer.State)
}

// A lost dispute took an amount of the intent's currency.
func TestDisputeInAnotherUnit(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	id := uuid.New()
	p := payment.Payment{ID: id, OrderID: id.String(), Amount: 5000, Currency: "ISK", Description: title, Attempt: 1, ExpiresAt: b.clock.Now().Add(time.Minute)}
	page, err := b.Open(t.Context(), p)
	require.NoError(t, err)
	p.Ref = page.Ref
	b.choose(page.URL, fake.Pay)
	out, err := b.Charge(t.Context(), p, payment.Outcome{})
	require.NoError(t, err)
	p.ChargeID = out.ChargeID
	require.NoError(t, b.fake.Dispute(p.OrderID, ""))
	require.NoError(t, b.fake.Dispute(p.OrderID, "lost"))
	report, err := b.AskRefunds(t.Context(), p)
	require.NoError(t, err)
	require.True(t, report.Refunds[0].Lost)
	require.EqualValues(t, 5000, report.Refunds[0].Amount)
}
