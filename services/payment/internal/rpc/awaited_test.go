package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
)

// failLooks makes the next look-ups at Stripe fail.
func (s *stripeShop) failLooks(n int) {
	list := make([]fakes.Fault, n)
	for i := range list {
		list[i] = fakes.Dropped
	}
	s.stripe.Calls.Inject(fake.GetSession, list...)
}

// A buyer paid in time, and Stripe does not answer until the page's time is over: the seats are kept until
// it has answered.
func TestPaidPageDoesNotEndUnanswered(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, ref := s.prepared()
	params := s.choose(p, fake.Pay)
	s.clock.Advance(pageTime - 2*time.Minute)
	s.failLooks(1000)
	s.comeBack(params)
	for range 40 {
		s.sweep(30 * time.Second)
		s.service.ExtendDue(t.Context())
	}
	require.Equal(t, "PENDING", s.get(p).GetStatus())
	require.True(t, s.clock.Now().Before(s.tickets.Hold(ref).ExpiresAt), "the hold is kept")
	s.failLooks(0)
	s.becomes(p, "CONFIRMED")
	require.Equal(t, 1, s.stripe.Calls.Count(fake.CaptureIntent))
}

// Without a sign of the buyer nothing is kept.
func TestUnpaidPageEndsUnanswered(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, _ := s.prepared()
	s.failLooks(1000)
	for range 30 {
		s.sweep(30 * time.Second)
		s.service.ExtendDue(t.Context())
	}
	require.Equal(t, "EXPIRED", s.get(p).GetStatus())
}

// When the hold can be kept no longer, the payment ends, which is counted, and the buyer's money is
// released as soon as Stripe answers.
func TestUnansweredPageEndsWithItsHold(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	s.tickets.Lengthen()
	p, _ := s.prepared()
	s.comeBack(s.choose(p, fake.Pay))
	s.failLooks(1000)
	require.Zero(t, s.unanswered.Load())
	for range 100 {
		s.sweep(30 * time.Second)
		s.service.ExtendDue(t.Context())
	}
	require.Equal(t, "EXPIRED", s.get(p).GetStatus())
	require.EqualValues(t, 1, s.unanswered.Load())
	require.Zero(t, s.stripe.Calls.Count(fake.CaptureIntent))
	s.failLooks(0)
	for range 5 {
		s.sweep(30 * time.Second)
	}
	require.Equal(t, 1, s.stripe.Calls.Count(fake.CancelIntent))
	require.Zero(t, s.stripe.Order(p.GetOrderId()).Received)
}

// A buyer who is back reads how long it takes until Stripe is asked: as long as those before need.
func TestBuyersReadHowLongTheyWait(t *testing.T) {
	t.Parallel()
	s := setupStripe(t, func(s *stripeShop) { s.endpointRate = 0.5 })
	for range 5 {
		p, _ := s.prepared()
		s.comeBack(s.choose(p, fake.Pay))
		s.clock.Advance(time.Millisecond)
	}
	p, _ := s.prepared()
	require.Zero(t, s.get(p).GetWaitSeconds(), "on the page")
	s.comeBack(s.choose(p, fake.Pay))
	require.EqualValues(t, 10, s.get(p).GetWaitSeconds())
	s.sweep(0)
	require.Zero(t, s.get(p).GetWaitSeconds())
}

// A user opens so many pages in an hour, and not more, whatever they are for.
func TestPagesOfAUserAreLimited(t *testing.T) {
	t.Parallel()
	s := setupStripe(t, func(s *stripeShop) { s.pagesPerHour = payment.PagesPerHour })
	for range payment.PagesPerHour {
		s.prepared()
		s.clock.Advance(time.Minute)
	}
	ref := s.tickets.Add(user, amount, holdTime)
	_, err := s.prepare(ref, uuid.NewString())
	require.ErrorIs(t, err, errs.ErrRateLimited)
	require.Equal(t, 50*time.Minute, errs.From(err).RetryAfter)
	s.clock.Advance(50 * time.Minute)
	ref = s.tickets.Add(user, amount, holdTime)
	_, err = s.prepare(ref, uuid.NewString())
	require.NoError(t, err)
}

// A buyer whose card was declined on the page, and who comes back, may go on there as soon as Stripe has
// answered.
func TestDeclinedBuyersGoOnAtOnce(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, _ := s.prepared()
	s.choose(p, fake.Decline)
	s.comeBack(s.choose(p, fake.Back))
	require.Equal(t, "PENDING", s.get(p).GetStatus())
	s.sweep(0)
	got := s.get(p)
	require.Equal(t, "OPEN", got.GetStatus())
	require.NotEmpty(t, got.GetDeclineCode())
	require.Equal(t, p.GetPage().GetUrl(), got.GetPage().GetUrl())
}

// Whoever comes back again and again to a page that is not paid waits longer each time, so that the
// limits of the account are left for others.
func TestUnpaidReturnsGetSeldom(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, _ := s.prepared()
	params := s.choose(p, fake.Back)
	for range 5 * 60 {
		s.comeBack(params)
		s.sweep(time.Second)
	}
	require.Less(t, s.stripe.Calls.Count(fake.GetSession), 25)
}
