package payment

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// sweptStore records when lanes are swept. Due payments have expired: only the store is called.
type sweptStore struct {
	Stores

	began time.Time

	mu      sync.Mutex
	at      []time.Duration // the time of each round, since began
	full    int             // how many of the next rounds find a full batch
	refunds []time.Duration // when the lane of compensations was swept
}

func (r *sweptStore) ClaimDue(_ context.Context, lane Lane, n int, _ time.Duration) ([]Payment, time.Time, error) {
	if lane != Expiries {
		return nil, now, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, time.Since(r.began))
	if r.full == 0 {
		return nil, now, nil
	}
	r.full--
	due := make([]Payment, n)
	for i := range due {
		due[i] = paymentIn(Prepared)
	}
	return due, now, nil
}

func (r *sweptStore) Apply(context.Context, uuid.UUID, Decide) (Payment, error) {
	return paymentIn(Expired), nil
}

func (r *sweptStore) ClaimRefunds(_ context.Context, c Cause, _ bool, _ int, _ time.Duration) ([]DueRefund, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c != Compensation {
		return nil, nil
	}
	r.refunds = append(r.refunds, time.Since(r.began))
	return nil, nil
}

func (r *sweptStore) ApplyOnce(context.Context, string, uuid.UUID, DecideRequest) error { return nil }

// take returns the times of the rounds since it was last called.
func (r *sweptStore) take() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.at
	r.at = nil
	return at
}

// unsettledTickets is a ticket service that has settled nothing.
type unsettledTickets struct{ Tickets }

func (unsettledTickets) Settled(context.Context, ...uuid.UUID) ([]Settled, error) { return nil, nil }

func TestSweepInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &sweptStore{began: time.Now(), full: 2}
		s := New(r, unsettledTickets{}, Providers{}, slog.New(slog.DiscardHandler), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Sweep(ctx) }()
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 0, 0}, r.take(), "after a full round there may be more")

		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, r.take())
		require.NoError(t, s.Compensate(t.Context(), Rejection{}))
		synctest.Wait()
		require.Empty(t, r.take())
		r.mu.Lock()
		require.Equal(t, 2500*time.Millisecond, r.refunds[len(r.refunds)-1], "a refund is not left waiting")
		r.mu.Unlock()
		cancel()
		require.NoError(t, <-ended)
	})
}
