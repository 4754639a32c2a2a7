package rpc_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/ticket"
)

// disputes starts a dispute, or ends it (closed: won or lost), and delivers its webhook.
func (s *stripeShop) disputes(p *paymentv1.PrepareResponse, closed string) {
	s.t.Helper()
	require.NoError(s.t, s.stripe.Dispute(p.GetOrderId(), closed))
	s.deliverPending()
	s.follow()
}

// follow sweeps until the provider was asked, at most once in 5 s, and refunds are claimed.
func (s *stripeShop) follow() {
	s.t.Helper()
	for range 3 {
		s.sweep(6 * time.Second)
	}
}

func (s *stripeShop) isDisputed(p *paymentv1.PrepareResponse) bool {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM payments WHERE id = $1 AND disputed_at IS NOT NULL`, uuid.MustParse(p.GetPaymentId())) == 1
}

// requireLost requires that only the lost dispute took money, and that it is recorded once.
func (s *stripeShop) requireLost(p *paymentv1.PrepareResponse) {
	s.t.Helper()
	require.False(s.t, s.isDisputed(p))
	require.Empty(s.t, s.stripe.Order(p.GetOrderId()).Refunds)
	require.Equal(s.t, amount, s.count(`SELECT refunded FROM payments WHERE id = $1 AND hand = refunded`, uuid.MustParse(p.GetPaymentId())))
	require.Equal(s.t, "DONE", s.refund(p, "BY_HAND").status)
	require.Equal(s.t, "REFUNDED", s.get(p).GetStatus())
	types := s.eventTypes(p)
	slices.Sort(types[1:])
	require.Equal(s.t, []string{"PAYMENT_CONFIRMED", "PAYMENT_DISPUTED", "PAYMENT_REFUNDED"}, types, "what is still valid stays marked")
	require.Equal(s.t, int64(1), s.count(`SELECT count(*) FROM refunds WHERE payment_id = $1 AND reason = 'DISPUTE_LOST'`, uuid.MustParse(p.GetPaymentId())))
}

// While the payer disputes the charge, no refund is sent, and the tickets stay valid. After the
// shop has won, refunds continue.
func TestDisputeStopsRefunds(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.bought()
	s.disputes(p, "")
	require.True(t, s.isDisputed(p))
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_DISPUTED"}, s.eventTypes(p))
	s.ask(p, payment.ByUser, "k")
	require.Equal(t, "DISPUTED", s.untilStripe(p, "REFUSED").reason)
	s.sweep(time.Minute)
	require.Equal(t, "VALID", s.tickets.Of(p.GetPaymentId())[0].Status)
	s.reject(p, "rejected")
	require.Equal(t, "DISPUTED", s.untilRefund(p, "COMPENSATION", "HELD").reason)
	require.Zero(t, s.stripe.Calls.Count(fake.CreateRefund), "nothing is sent")
	shown, err := s.admins.FindPayments(t.Context(), &paymentv1.FindPaymentsRequest{
		Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}, By: &paymentv1.FindPaymentsRequest_OrderId{OrderId: p.GetOrderId()},
	})
	require.NoError(t, err)
	require.NotNil(t, shown.GetPayments()[0].GetDisputedAt())

	s.disputes(p, "won")
	require.False(t, s.isDisputed(p))
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_DISPUTED", "PAYMENT_DISPUTE_CLOSED"}, s.eventTypes(p))
	_, err = s.service.RetryRefund(t.Context(), uuid.MustParse(s.refund(p, "COMPENSATION").id), nil)
	require.NoError(t, err)
	s.untilRefund(p, "COMPENSATION", "DONE")
	s.requireRefunded(p, amount, 1)
}

// Money that a lost dispute took is recorded as refunded by hand. The payment's tickets end, and
// the money is not refunded again.
func TestDisputeIsLost(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.bought()
	s.disputes(p, "")
	s.disputes(p, "lost")
	s.requireLost(p)
	require.Equal(t, "REFUNDING", s.tickets.Of(p.GetPaymentId())[0].Status, "until ticket hears of it")
	s.reject(p, "rejected")
	for range 20 {
		s.sweep(time.Minute)
	}
	require.Empty(t, s.stripe.Order(p.GetOrderId()).Refunds)
	require.Equal(t, amount, s.stripe.Order(p.GetOrderId()).Received)
	code, out := s.account().reconcile()
	require.Zero(t, code, out)
	require.Contains(t, out, "differences=0\n")
}

// A part that was refunded before the dispute stays refunded. A refund call in progress when the
// dispute began is found. Whatever happens to that call, no refund is made twice.
func TestDisputeWhileARefundIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakes.Fault{fakes.Lost, fakes.Broken, fakes.Dropped, fakes.Failed, fakes.Late} {
		for _, closed := range []string{"won", "lost"} {
			t.Run(fmt.Sprint(fault, closed), func(t *testing.T) {
				t.Parallel()
				s := setupStripe(t)
				p := s.charged()
				s.issue(p, 30000, 25000)
				s.ask(p, payment.ByOperator, "before", 0)
				s.untilRefund(p, "OPERATOR", "DONE")
				s.stripe.Calls.Inject(fake.CreateRefund, fault)
				s.ask(p, payment.ByUser, "k", 1)
				s.sweep(0)
				require.NoError(t, s.stripe.DisputePart(p.GetOrderId(), 1000))
				s.deliverPending()
				s.follow()
				require.True(t, s.isDisputed(p))
				s.clock.Advance(3 * time.Minute)
				s.stripe.Calls.Arrive()
				made := fault == fakes.Lost || fault == fakes.Broken
				want, sum := map[bool]string{true: "DONE", false: "REFUSED"}[made], int64(30000)
				if made {
					sum += 24000
				}
				s.untilStripe(p, want)
				s.disputes(p, closed)
				for range 5 {
					s.sweep(time.Hour)
				}
				require.Equal(t, sum, s.stripe.Order(p.GetOrderId()).Refunded)
				if closed == "lost" {
					sum += 1000
				}
				require.Equal(t, sum, s.count(`SELECT refunded FROM payments WHERE id = $1`, uuid.MustParse(p.GetPaymentId())))
				require.False(t, s.isDisputed(p))
			})
		}
	}
}

// Webhooks only make the sweeper ask, so their number and order do not change the result.
func TestDisputeWebhooksInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		s := setupStripe(t)
		p := s.bought()
		s.deliverPending()
		require.NoError(t, s.stripe.Dispute(p.GetOrderId(), ""))
		hooks := s.stripe.Webhooks.Take()
		s.deliver(hooks)
		require.True(t, s.isDisputed(p))
		require.NoError(t, s.stripe.Dispute(p.GetOrderId(), "lost"))
		hooks = append(hooks, s.stripe.Webhooks.Take()...)
		require.NoError(t, s.stripe.Dispute(s.bought().GetOrderId(), ""))
		other := s.stripe.Webhooks.Take()
		hooks = append(hooks, slices.Concat(hooks, other)...)
		order := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the order need not be secret
		order.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
		for _, x := range hooks {
			s.deliver([]fakes.Webhook{x})
		}
		s.requireLost(p)
	}
}

func (s *stripeShop) deliver(list []fakes.Webhook) {
	s.t.Helper()
	for _, x := range list {
		require.NoError(s.t, s.deliverWebhook(x))
	}
	s.follow()
}

// An answer of the provider that is older than a webhook is ignored.
func TestDisputeAnswerIsOld(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.bought()
	require.NoError(t, s.stripe.Dispute(p.GetOrderId(), ""))
	s.clock.Advance(6 * time.Second) // hints are at least 5 s apart
	s.deliverPending()
	release := s.stripe.Calls.Block(fake.ListDisputes)
	swept := make(chan struct{})
	go func() { defer close(swept); s.service.SweepOnce(context.WithoutCancel(t.Context())) }()
	testkit.Until(t, func() bool { return s.stripe.Calls.Count(fake.ListDisputes) == 1 }, "it asks")
	require.NoError(t, s.store().Hint(t.Context(), p.GetOrderId(), true))
	release()
	<-swept
	require.False(t, s.isDisputed(p), "the answer was asked for before the webhook")
	s.clock.Advance(6 * time.Second)
	s.follow()
	require.True(t, s.isDisputed(p))
}

// Without webhooks a dispute is found when a refund is refused, and its end within a day.
func TestDisputeWithoutWebhooks(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.bought()
	require.NoError(t, s.stripe.Dispute(p.GetOrderId(), ""))
	s.ask(p, payment.ByUser, "k")
	require.Equal(t, "charge_disputed", s.untilStripe(p, "REFUSED").reason)
	s.follow()
	require.True(t, s.isDisputed(p))
	require.NoError(t, s.stripe.Dispute(p.GetOrderId(), "lost"))
	s.sweep(23 * time.Hour)
	require.True(t, s.isDisputed(p))
	s.sweep(time.Hour)
	s.follow()
	s.requireLost(p)
	s.sweep(48 * time.Hour)
	require.Equal(t, int64(0), s.count(`SELECT count(*) FROM payments WHERE id = $1 AND check_at IS NOT NULL`, uuid.MustParse(p.GetPaymentId())))
}

// dying returns the service of a process that dies when l ends.
func (s *stripeShop) dying(l *lifetime) *payment.Service {
	s.t.Helper()
	return payment.New(mortalStore{s.store(), l}, mortalTickets{ticket.NewClient(s.dialTickets()), l}, payment.Providers{
		Default: stripe.Name, ByName: map[string]payment.Provider{stripe.Name: mortalProvider{Provider: s.guard, lifetime: l}},
	}, slog.New(slog.DiscardHandler), payment.Options{Now: s.clock.Now})
}

// Whenever a process dies while it records a lost dispute, the next one gets the same result.
func TestDisputeSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		s := setupStripe(t)
		p := s.bought()
		s.deliverPending()
		s.disputes(p, "")
		require.NoError(t, s.stripe.Dispute(p.GetOrderId(), "lost"))
		s.deliverPending()
		l := &lifetime{remaining: n, between: func() {}}
		doomed := s.dying(l)
		for range 3 {
			s.clock.Advance(6 * time.Second)
			doomed.SweepOnce(t.Context())
		}
		s.clock.Advance(2 * time.Minute)
		s.follow()
		s.requireLost(p)
		if l.remaining >= 0 {
			require.Greater(t, n, 10)
			return
		}
	}
}

// The nightly comparison finds a dispute whose webhooks were all lost. The money that the dispute
// took counts for a refund that is requested later.
func TestDisputeIsFoundAtNight(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.charged()
	require.NoError(t, s.stripe.Dispute(p.GetOrderId(), ""))
	s.stripe.Webhooks.Take()
	require.False(t, s.isDisputed(p))
	code, out := s.account().reconcile()
	require.Zero(t, code, out)
	id := uuid.MustParse(p.GetPaymentId())
	require.Equal(t, int64(1), s.count(`SELECT count(*) FROM payments WHERE id = $1 AND hinted`, id))
	s.exec(`UPDATE payments SET check_at = created_at WHERE id = $1`, id) // the command uses the real time
	s.follow()
	require.True(t, s.isDisputed(p))
	require.NoError(t, s.stripe.Dispute(p.GetOrderId(), "lost"))
	s.sweep(25 * time.Hour)
	s.follow()
	require.False(t, s.isDisputed(p))
	s.reject(p, "rejected")
	s.untilRefund(p, "COMPENSATION", "DONE")
	require.Empty(t, s.stripe.Order(p.GetOrderId()).Refunds)
}
