package rpc_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/ticket"
	"urr.guru/services/payment/internal/toss"
)

// Buyers are offered only providers that take the currency and the amount, and only these may be
// named. The ticket service is told the same.
func TestProvidersTakeWhatTheyCan(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	tossClient := toss.NewClient("test_sk", toss.Options{URL: s.url, PageURL: "https://pay.test/toss", Now: s.clock.Now})
	t.Cleanup(tossClient.Close)
	providers := payment.Providers{Default: toss.Name, ByName: map[string]payment.Provider{stripe.Name: s.guard, toss.Name: tossClient}}
	s.service = payment.New(s.store(), ticket.NewClient(s.dialTickets(), providers.Limits()...), providers, slog.New(slog.DiscardHandler),
		payment.Options{Now: s.clock.Now})
	s.client = paymentv1.NewPaymentServiceClient(rpctest.Serve(t, func(r grpc.ServiceRegistrar) { rpc.Register(r, s.service) }, withoutTimeout()))
	list := func(currency string, amount int64) []string {
		got, err := s.client.ListProviders(t.Context(), &paymentv1.ListProvidersRequest{Currency: currency, Amount: amount})
		require.NoError(t, err)
		require.Len(t, got.GetLimits(), len(got.GetProviders()))
		return got.GetProviders()
	}
	require.Equal(t, []string{"toss", "stripe"}, list("", 0))
	require.Equal(t, []string{"toss", "stripe"}, list("KRW", 100))
	require.Equal(t, []string{"stripe"}, list("KRW", 99))
	require.Equal(t, []string{"stripe"}, list("USD", 500))
	require.Empty(t, list("KRW", 49))
	require.Empty(t, list("KWD", 5124))

	prepare := func(amount int64, provider string) (*paymentv1.PrepareResponse, error) {
		return s.client.Prepare(t.Context(), &paymentv1.PrepareRequest{
			Caller: caller(user, newIdempotencyKey()), PaymentType: "reservation", ReferenceId: s.tickets.Add(user, amount, holdTime), Provider: provider,
		})
	}
	_, err := prepare(99, "toss")
	require.ErrorIs(t, err, errs.ErrAmountNotTaken)
	require.Equal(t, "100", errs.From(err).Metadata["smallest"])
	p, err := prepare(99, "")
	require.NoError(t, err)
	require.Equal(t, "stripe", p.GetProvider(), "the first that takes it")
	_, err = prepare(49, "")
	require.ErrorIs(t, err, errs.ErrAmountNotTaken)

	s.service.MeasureGate(t.Context())
	told := s.tickets.Providers()
	require.Equal(t, []string{"toss", "stripe"}, []string{told[0].GetProvider(), told[1].GetProvider()})
	require.EqualValues(t, 100, told[0].GetCurrencies()[0].GetSmallest())
	require.Greater(t, len(told[1].GetCurrencies()), 130)
}
