package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/postgres"
)

// taken takes shares for a provider's endpoints by several replicas for a second, and returns how many
// calls were granted by endpoint, and the time from before the first until after the last.
func taken(t *testing.T, b postgres.Budgets, limits budget.Limits, endpoints ...string) (calls map[string]int, during time.Duration) {
	t.Helper()
	const replicas = 3
	var mu sync.Mutex
	calls = map[string]int{}
	began := time.Now()
	var work sync.WaitGroup
	for range replicas {
		for _, endpoint := range endpoints {
			work.Go(func() {
				for time.Since(began) < time.Second {
					share, err := b.TakeShare(t.Context(), "p", endpoint, limits, 1000)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					calls[endpoint] += share.Calls
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	}
	work.Wait()
	return calls, time.Since(began)
}

// All replicas together send no more than each limit allows, up to a quarter of a second ahead.
func TestBudgetsAreShared(t *testing.T) {
	t.Parallel()
	requireWithin := func(calls int, during time.Duration, perSecond float64) {
		t.Helper()
		require.Positive(t, calls)
		require.LessOrEqual(t, float64(calls), (during.Seconds()+0.25)*perSecond+2)
	}
	b := postgres.NewBudgets(postgrestest.New(t, postgres.Migrations...))
	calls, during := taken(t, b, budget.Limits{PerSecond: 1000, PerEndpoint: 100}, "GET /x")
	requireWithin(calls["GET /x"], during, 100)

	b = postgres.NewBudgets(postgrestest.New(t, postgres.Migrations...))
	calls, during = taken(t, b, budget.Limits{PerSecond: 150, PerEndpoint: 100}, "GET /x", "GET /y", "GET /z")
	requireWithin(calls["GET /x"]+calls["GET /y"]+calls["GET /z"], during, 150)
}

// What is not taken is lost: nobody sends more later.
func TestUnusedSharesLapse(t *testing.T) {
	t.Parallel()
	b := postgres.NewBudgets(postgrestest.New(t, postgres.Migrations...))
	limits := budget.Limits{PerEndpoint: 20}
	_, err := b.TakeShare(t.Context(), "p", "GET /x", limits, 1)
	require.NoError(t, err)
	time.Sleep(time.Second)
	share, err := b.TakeShare(t.Context(), "p", "GET /x", limits, 1000)
	require.NoError(t, err)
	require.LessOrEqual(t, share.Calls, 6, "of the next quarter of a second")
	require.Equal(t, 50*time.Millisecond, share.Gap)
	share, err = b.TakeShare(t.Context(), "p", "GET /x", limits, 1)
	require.NoError(t, err)
	require.True(t, share.Calls == 1 || share.Wait > 0)
}

// A refusal lowers the endpoint's limit once for all calls that were refused together.
func TestSlowedBudgets(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, postgres.Migrations...)
	b := postgres.NewBudgets(pool)
	take := func(ctx context.Context, endpoint string) budget.Share {
		share, err := b.TakeShare(ctx, "p", endpoint, budget.Limits{PerSecond: 1000, PerEndpoint: 100}, 1)
		require.NoError(t, err)
		return share
	}
	require.Equal(t, 10*time.Millisecond, take(t.Context(), "GET /x").Gap)
	take(t.Context(), "GET /y")
	for range 3 {
		require.NoError(t, b.Slow(t.Context(), "p", "GET /x"))
	}
	gap := take(t.Context(), "GET /x").Gap
	require.LessOrEqual(t, gap, 15*time.Millisecond+time.Microsecond, "two thirds, and more with time")
	require.Greater(t, gap, 10*time.Millisecond)
	var pause time.Duration
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT free_at - slowed_at FROM provider_budgets WHERE endpoint = 'GET /x'`).Scan(&pause))
	require.GreaterOrEqual(t, pause, 490*time.Millisecond, "not at once")
	require.Equal(t, 10*time.Millisecond, take(t.Context(), "GET /y").Gap)
	_, err := pool.Exec(t.Context(), `UPDATE provider_budgets SET slowed_at = now() - interval '1 minute'`)
	require.NoError(t, err)
	require.Equal(t, 10*time.Millisecond, take(t.Context(), "GET /x").Gap, "a minute later")
}
