package rpc_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/ticket"
)

// goLive makes a replica on the same database whose keys are live.
func (s *stripeShop) goLive() {
	s.t.Helper()
	store := postgres.NewStore(s.pool, postgres.Options{Now: s.clock.Now, Mode: payment.LiveMode})
	providers := payment.Providers{Default: stripe.Name, ByName: map[string]payment.Provider{stripe.Name: s.guard}, Mode: payment.LiveMode}
	s.service = payment.New(store, ticket.NewClient(s.dialTickets()), providers, slog.New(slog.DiscardHandler), payment.Options{Now: s.clock.Now})
	conn := rpctest.Serve(s.t, func(r grpc.ServiceRegistrar) { rpc.Register(r, s.service) }, withoutTimeout())
	s.client = paymentv1.NewPaymentServiceClient(conn)
}

// Payments that were opened with a test key are not sent to a provider with a live key, which does
// not know them: their charges and refunds stop. A new payment takes the place of one not charged.
func TestPaymentsOfAnotherMode(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	paid, ref := s.prepared()
	s.choose(paid, fake.Pay)
	sold := s.bought()
	s.ask(sold, payment.ByUser, "k")
	refundCalls, lookups := s.stripe.Calls.Count(fake.CreateRefund), s.stripe.Calls.Count(fake.GetSession)
	s.goLive()
	for range 5 {
		s.sweep(time.Minute)
	}
	_, err := s.confirm(paid, "pi_1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrProviderUnavailable)
	require.Equal(t, []int{refundCalls, lookups}, []int{s.stripe.Calls.Count(fake.CreateRefund), s.stripe.Calls.Count(fake.GetSession)})
	require.Equal(t, "OPEN", s.get(paid).GetStatus())

	next, err := s.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.NotEqual(t, paid.GetPaymentId(), next.GetPaymentId())
	require.Equal(t, "EXPIRED", s.get(paid).GetStatus())
	require.EqualValues(t, 1, s.count(`SELECT count(*) FROM payments WHERE id = $1 AND mode = 'live'`, uuid.MustParse(next.GetPaymentId())))
	s.comeBack(s.choose(next, fake.Pay))
	s.becomes(next, "CONFIRMED")
}
