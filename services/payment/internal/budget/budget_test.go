package budget_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/payment"
)

// store grants a call every gap, as the database does, or fails.
type store struct {
	mu     sync.Mutex
	gap    time.Duration
	freeAt time.Time
	err    error
	slowed []string
}

func (s *store) TakeShare(_ context.Context, _, _ string, _ budget.Limits, n int) (budget.Share, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.freeAt.Before(now) {
		s.freeAt = now
	}
	const ahead = 250 * time.Millisecond
	wait := s.freeAt.Sub(now)
	if wait > ahead {
		return budget.Share{Wait: wait - ahead}, s.err
	}
	calls := min(n, int((ahead-wait)/s.gap)+1)
	s.freeAt = s.freeAt.Add(time.Duration(calls) * s.gap)
	return budget.Share{Calls: calls, Wait: wait, Gap: s.gap}, s.err
}

func (s *store) Slow(_ context.Context, _, endpoint string) error {
	s.slowed = append(s.slowed, endpoint)
	return nil
}

// newBudget returns a budget in the bubble of a test, which ends when nothing is going on in it.
func newBudget(t *testing.T, s *store) *budget.Budget {
	t.Helper()
	t.Cleanup(func() { time.Sleep(2 * s.gap) })
	limits := budget.Limits{PerEndpoint: float64(time.Second) / float64(s.gap)}
	return budget.New("test", limits, s, slog.New(slog.DiscardHandler))
}

// While too many calls wait, the most urgent goes first, and of the same urgency the one that came first.
func TestUrgentCallsGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, &store{gap: 100 * time.Millisecond})
		require.NoError(t, b.Await(t.Context(), "GET /x"), "the first one waits for nothing")
		var mu sync.Mutex
		var order []payment.Urgency
		var calls sync.WaitGroup
		for _, u := range []payment.Urgency{payment.ForComparison, payment.ForPoll, payment.ForRefund, payment.ForReturn, payment.ForCharge, payment.ForHint} {
			calls.Go(func() {
				require.NoError(t, b.Await(payment.WithUrgency(t.Context(), u), "GET /x"))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, u)
			})
		}
		began := time.Now()
		calls.Wait()
		require.Equal(t, []payment.Urgency{payment.ForCharge, payment.ForReturn, payment.ForHint, payment.ForRefund, payment.ForPoll, payment.ForComparison}, order)
		require.InDelta(t, 600*time.Millisecond, time.Since(began), float64(20*time.Millisecond), "as fast as the limit allows")
	})
}

// A call gives up at half of its time: nothing was sent, and the turn is left for others.
func TestCallGivesUpInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, &store{gap: time.Minute})
		require.NoError(t, b.Await(t.Context(), "GET /x"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		err := b.Await(ctx, "GET /x")
		require.ErrorIs(t, err, payment.ErrNoTurn)
		require.ErrorIs(t, err, payment.ErrNotSent)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.NoError(t, b.Await(t.Context(), "GET /x"))
		require.InDelta(t, time.Minute, time.Since(began), float64(2*time.Second))
	})
}

// A turn that was awaited ahead serves one call of its endpoint.
func TestTurnAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, &store{gap: time.Second})
		ctx, err := b.Ahead(t.Context(), "POST /refunds", time.Second)
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, b.Await(ctx, "POST /refunds"))
		require.Zero(t, time.Since(began))
		require.NoError(t, b.Await(ctx, "POST /refunds"), "the second call waits")
		require.NotZero(t, time.Since(began))
		_, err = b.Ahead(t.Context(), "POST /refunds", time.Millisecond)
		require.ErrorIs(t, err, payment.ErrNoTurn)
	})
}

// While the database does not answer nothing is sent; afterwards calls go on.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{gap: 10 * time.Millisecond, err: errors.New("away")}
		b := newBudget(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.Await(ctx, "GET /x"), payment.ErrNoTurn)
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		require.NoError(t, b.Await(t.Context(), "GET /x"))
	})
}

func TestNoLimit(t *testing.T) {
	t.Parallel()
	b := budget.New("test", budget.Limits{}, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, b.Await(t.Context(), "GET /x"))
	require.Zero(t, b.PerEndpoint())
}

func TestThrottledSlowsWhatWasRefused(t *testing.T) {
	t.Parallel()
	s := &store{gap: time.Millisecond}
	b := newBudget(t, s)
	b.Throttled(t.Context(), "GET /x", false)
	b.Throttled(t.Context(), "GET /x", true)
	require.Equal(t, []string{"GET /x", ""}, s.slowed)
}
