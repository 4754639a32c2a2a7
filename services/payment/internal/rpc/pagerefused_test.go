package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/stripe"
)

// A payment that the provider refuses for good ends at the first call, with a reason, and the hold
// is free for another attempt.
func TestPageIsRefusedForGood(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	s.stripe.SetRules(fake.Rules{NotActivated: true})
	ref, key := s.tickets.Add(user, amount, holdTime), newIdempotencyKey()
	for range 2 {
		p, err := s.prepare(ref, key)
		require.NoError(t, err)
		require.Equal(t, "DECLINED", p.GetStatus())
		require.Equal(t, "NOT_TAKEN", p.GetDeclineCode())
		require.Equal(t, "NOT_TAKEN", s.get(p).GetDeclineCode())
		require.Contains(t, s.get(p).GetTimeline()[1].GetNote(), "testmode_charges_only")
	}
	require.Equal(t, 1, s.stripe.Calls.Count(fake.CreateSession))
	require.Empty(t, s.tickets.Hold(ref).Payment)
	s.stripe.SetRules(fake.Rules{})
	p, err := s.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	s.comeBack(s.choose(p, fake.Pay))
	s.becomes(p, "CONFIRMED")
}

// While the provider refuses the key, no payment is opened or charged. The hold stays, and the
// payment goes on when the key is accepted again.
func TestRefusedKeyStopsTheSale(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	client := stripe.NewClient(stripe.Secrets{Key: "sk_test_1", Webhooks: secret}, stripe.Options{URL: s.url, ReturnURL: "https://shop/back", Now: s.clock.Now})
	t.Cleanup(client.Close)
	s.service = s.replica(guard.New(guard.Measured("stripe-key", client), unlimited))
	s.client = paymentv1.NewPaymentServiceClient(rpctest.Serve(t, func(r grpc.ServiceRegistrar) { rpc.Register(r, s.service) }, withoutTimeout()))
	paid, _ := s.prepared()
	s.choose(paid, fake.Pay)
	client.Rekey(stripe.Secrets{Key: "sk_test_revoked", Webhooks: secret})
	ref, key := s.tickets.Add(user, amount, 10*time.Minute), newIdempotencyKey()
	for range 3 {
		_, err := s.prepare(ref, key)
		require.ErrorIs(t, err, errs.ErrProviderUnavailable)
		require.Positive(t, errs.From(err).RetryAfter)
		s.sweep(10 * time.Second)
	}
	require.NotEmpty(t, s.tickets.Hold(ref).Payment, "the hold is kept")
	require.Equal(t, "OPEN", s.get(paid).GetStatus())
	require.Zero(t, s.stripe.Calls.Count(fake.CaptureIntent))
	client.Rekey(stripe.Secrets{Key: "sk_test_1", Webhooks: secret})
	s.becomes(paid, "CONFIRMED")
	p, err := s.prepare(ref, key)
	require.NoError(t, err)
	s.comeBack(s.choose(p, fake.Pay))
	s.becomes(p, "CONFIRMED")
}
