package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// An event that no payment provider can sell is refused when it is saved. Until the payment service
// has said what they take, it is saved with a warning. What the service said last counts.
func TestEventsThatNoProviderCanSell(t *testing.T) {
	t.Parallel()
	c := serve(t)
	put := func(currency string, price, fee int64) (*ticketv1.Event, error) {
		section := admissions("S", 100)
		section.Price, section.Fee = price, fee
		req := putEvent(uuid.NewString(), "GENERAL", section)
		req.Spec.Currency = currency
		return c.PutEvent(t.Context(), req)
	}
	saved, err := put("USD", 1, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"PROVIDERS_UNKNOWN"}, saved.GetWarnings())

	toss := &commonv1.ProviderLimits{Provider: "toss", Currencies: []*commonv1.CurrencyLimits{{Currency: "KRW", Smallest: 100, Step: 1}}}
	stripe := &commonv1.ProviderLimits{Provider: "stripe", Currencies: []*commonv1.CurrencyLimits{
		{Currency: "KRW", Smallest: 50, Largest: 9999, Step: 1}, {Currency: "KWD", Smallest: 10, Step: 10},
	}}
	tell := func(list ...*commonv1.ProviderLimits) {
		_, err := c.GetSettlement(t.Context(), &ticketv1.GetSettlementRequest{Providers: list})
		require.NoError(t, err)
	}
	tell(stripe, toss)
	tell() // a payment service of an older version
	for _, x := range []struct {
		currency   string
		price, fee int64
		path, says string
	}{
		{"KRW", 49, 0, "sections[0].price", "must be, with the fee, at least 50, at most 9999 (stripe); or at least 100 (toss)"},
		{"KRW", 40, 10, "", ""},
		{"KRW", 10_000, 0, "", ""},
		{"KRW", 0, 0, "", ""},
		{"USD", 0, 0, "", ""},
		{"USD", 1000, 0, "currency", "must be one that a payment provider takes: KRW, KWD (stripe); KRW (toss)"},
		{"KWD", 5124, 0, "sections[0].price", "must be, with the fee, at least 10, both in multiples of 10 (stripe)"},
		{"KWD", 5125, 5, "sections[0].price", "must be, with the fee, at least 10, both in multiples of 10 (stripe)"},
		{"KWD", 5120, 10, "", ""},
	} {
		saved, err := put(x.currency, x.price, x.fee)
		if x.path == "" {
			require.NoError(t, err, "%v", x)
			require.Empty(t, saved.GetWarnings())
			continue
		}
		require.ErrorIs(t, err, errs.ErrInvalidRequest, "%v", x)
		require.Equal(t, []errs.Field{{Path: x.path, Message: x.says}}, errs.From(err).Fields)
	}
	tell(&commonv1.ProviderLimits{Provider: "sandbox"})
	_, err = put("USD", 1, 0)
	require.NoError(t, err, "any amount of every currency")
}
