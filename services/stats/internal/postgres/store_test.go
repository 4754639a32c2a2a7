package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/config"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/proto/events"
	"urr.guru/services/stats/internal/audit"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/postgres"
)

var (
	saturday = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	sunday   = saturday.AddDate(0, 0, 1)
	noon     = saturday.Add(12 * time.Hour)
)

func setup(t *testing.T) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: postgrestest.URL(t, postgres.Migrations...), MaxConns: 16}, t.Name(),
		postgres.SearchPath())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return postgres.NewStore(pool), pool
}

// fixedBatch is a batch that adds d whichever of its events are fresh.
func fixedBatch(next int64, d figures.Delta, ids ...string) figures.Batch {
	return figures.Batch{
		Topic: "topic", Next: next, EventIDs: ids, Delta: func(map[string]bool) (figures.Delta, error) { return d, nil },
	}
}

// countingBatch is a batch that adds one to each figure of event e for every fresh id.
func countingBatch(next int64, ids ...string) figures.Batch {
	b := fixedBatch(next, figures.Delta{}, ids...)
	b.Delta = func(fresh map[string]bool) (figures.Delta, error) {
		n, day := int64(len(fresh)), figures.Day{EventID: "e", Date: saturday}
		if n == 0 {
			return figures.Delta{}, nil
		}
		return figures.Delta{
			Counts:   map[figures.Day]figures.Counts{day: {Created: n, Confirmed: n, Cancelled: n, Expired: n, Rejected: n, SeatsSold: n}},
			Revenue:  map[figures.RevenueKey]figures.Revenue{{Day: day, Currency: "KRW"}: {Confirmed: n, Refunded: n, Payments: n, Refunds: n}},
			Rewards:  map[figures.Day]figures.RewardCounts{day: {Paid: n, Failed: n, Cancelled: n, PointsPaid: n}},
			Requests: map[figures.Day]figures.RequestCounts{day: {Succeeded: n, Rejected: n, Failed: n}},
		}, nil
	}
	return b
}

// requireFigures fails unless every figure of event e is n.
func requireFigures(t *testing.T, store *postgres.Store, n int64) {
	t.Helper()
	counts, err := store.EventCounts(t.Context(), "e")
	require.NoError(t, err)
	want := figures.Counts{Created: n, Confirmed: n, Cancelled: n, Expired: n, Rejected: n, SeatsSold: n}
	require.Empty(t, cmp.Diff(want, counts.Counts))
	revenue, err := store.EventRevenue(t.Context(), "e")
	require.NoError(t, err)
	money := []figures.EventRevenue{{Currency: "KRW", Revenue: figures.Revenue{Confirmed: n, Refunded: n, Payments: n, Refunds: n}}}
	if n == 0 {
		money = []figures.EventRevenue{}
	}
	require.Empty(t, cmp.Diff(money, revenue))
	rewards, err := store.EventRewards(t.Context(), "e")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.RewardCounts{Paid: n, Failed: n, Cancelled: n, PointsPaid: n}, rewards.RewardCounts))
	requests, err := store.EventRequests(t.Context(), "e")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.RequestCounts{Succeeded: n, Rejected: n, Failed: n}, requests.RequestCounts))
}

// offset is how far the one partition of these tests has been counted.
func offset(t *testing.T, pool *pgxpool.Pool) (next int64) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT coalesce(max(next_offset), -1) FROM consumer_offsets`).Scan(&next))
	return next
}

func TestFiguresAddUpByEventDayAndCurrency(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	first, second, other := figures.Day{EventID: "e", Date: saturday}, figures.Day{EventID: "e", Date: sunday}, figures.Day{EventID: "f", Date: sunday}
	require.NoError(t, store.At(noon).Apply(t.Context(), fixedBatch(1, figures.Delta{
		Counts: map[figures.Day]figures.Counts{
			first: {Created: 1, Confirmed: 2, Cancelled: 3, Expired: 4, Rejected: 5, SeatsSold: 6}, other: {Created: 7},
		},
		Revenue: map[figures.RevenueKey]figures.Revenue{
			{Day: first, Currency: "KRW"}: {Confirmed: 1, Refunded: 2, Payments: 3, Refunds: 4}, {Day: other, Currency: "KRW"}: {Confirmed: 9},
		},
	}, "1")))
	require.NoError(t, store.At(noon.Add(time.Hour)).Apply(t.Context(), fixedBatch(2, figures.Delta{
		Counts: map[figures.Day]figures.Counts{
			first:  {Created: 10, Confirmed: 20, Cancelled: 30, Expired: 40, Rejected: 50, SeatsSold: -60},
			second: {Created: 100, Confirmed: 200, Cancelled: 300, Expired: 400, Rejected: 500, SeatsSold: 600},
		},
		Revenue: map[figures.RevenueKey]figures.Revenue{
			{Day: first, Currency: "KRW"}: {Confirmed: 10, Refunded: 20, Payments: 30, Refunds: 40},
			{Day: first, Currency: "USD"}: {Confirmed: 5}, {Day: second, Currency: "KRW"}: {Confirmed: 100, Refunded: 200, Payments: 300, Refunds: 400},
		},
	}, "2")))

	counts, err := store.EventCounts(t.Context(), "e")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.EventCounts{
		Counts:    figures.Counts{Created: 111, Confirmed: 222, Cancelled: 333, Expired: 444, Rejected: 555, SeatsSold: 546},
		UpdatedAt: noon.Add(time.Hour),
	}, counts))
	counts, err = store.EventCounts(t.Context(), "f")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.EventCounts{Counts: figures.Counts{Created: 7}, UpdatedAt: noon}, counts))
	revenue, err := store.EventRevenue(t.Context(), "e")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]figures.EventRevenue{
		{Currency: "KRW", Revenue: figures.Revenue{Confirmed: 111, Refunded: 222, Payments: 333, Refunds: 444}},
		{Currency: "USD", Revenue: figures.Revenue{Confirmed: 5}},
	}, revenue))

	requireRows(t, pool, []string{"e 2026-11-21 11", "e 2026-11-22 100", "f 2026-11-22 7"},
		`SELECT event_id || ' ' || day || ' ' || created FROM event_days ORDER BY 1`)
}

func TestRequestsAddUpByPromotionAndDay(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	first, second, other := figures.Day{EventID: "p", Date: saturday}, figures.Day{EventID: "p", Date: sunday}, figures.Day{EventID: "q", Date: sunday}
	require.NoError(t, store.At(noon).Apply(t.Context(), fixedBatch(1, figures.Delta{Requests: map[figures.Day]figures.RequestCounts{
		first: {Succeeded: 1, Rejected: 2, Failed: 3}, other: {Succeeded: 5},
	}}, "1")))
	require.NoError(t, store.At(noon.Add(time.Hour)).Apply(t.Context(), fixedBatch(2, figures.Delta{Requests: map[figures.Day]figures.RequestCounts{
		first: {Succeeded: 10, Rejected: 20, Failed: 30}, second: {Succeeded: 100, Rejected: 200, Failed: 300},
	}}, "2")))

	for id, want := range map[string]figures.EventRequests{
		"p": {RequestCounts: figures.RequestCounts{Succeeded: 111, Rejected: 222, Failed: 333}, UpdatedAt: noon.Add(time.Hour)},
		"q": {RequestCounts: figures.RequestCounts{Succeeded: 5}, UpdatedAt: noon},
		"r": {},
	} {
		got, err := store.EventRequests(t.Context(), id)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got), id)
	}
	requireRows(t, pool, []string{"p 2026-11-21 11", "p 2026-11-22 100", "q 2026-11-22 5"},
		`SELECT event_id || ' ' || day || ' ' || succeeded FROM request_days ORDER BY 1`)
}

func TestRewardsAddUpByCampaignAndDay(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	first, second, other := figures.Day{EventID: "c", Date: saturday}, figures.Day{EventID: "c", Date: sunday}, figures.Day{EventID: "d", Date: sunday}
	require.NoError(t, store.At(noon).Apply(t.Context(), fixedBatch(1, figures.Delta{Rewards: map[figures.Day]figures.RewardCounts{
		first: {Paid: 1, Failed: 2, Cancelled: 3, PointsPaid: 4}, other: {Paid: 5},
	}}, "1")))
	require.NoError(t, store.At(noon.Add(time.Hour)).Apply(t.Context(), fixedBatch(2, figures.Delta{Rewards: map[figures.Day]figures.RewardCounts{
		first: {Paid: 10, Failed: 20, Cancelled: 30, PointsPaid: 40}, second: {Paid: 100, Failed: 200, Cancelled: 300, PointsPaid: 400},
	}}, "2")))

	for id, want := range map[string]figures.EventRewards{
		"c": {RewardCounts: figures.RewardCounts{Paid: 111, Failed: 222, Cancelled: 333, PointsPaid: 444}, UpdatedAt: noon.Add(time.Hour)},
		"d": {RewardCounts: figures.RewardCounts{Paid: 5}, UpdatedAt: noon},
		"e": {},
	} {
		got, err := store.EventRewards(t.Context(), id)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got), id)
	}
	requireRows(t, pool, []string{"c 2026-11-21 11", "c 2026-11-22 100", "d 2026-11-22 5"},
		`SELECT event_id || ' ' || day || ' ' || paid FROM reward_days ORDER BY 1`)
}

// requireRows compares the lines that a query returns.
func requireRows(t *testing.T, pool *pgxpool.Pool, want []string, query string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), query)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, want, got, "each day has its own row")
}

func TestEachEventCountsOnce(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	for _, b := range []struct {
		batch figures.Batch
		want  int64
		why   string
	}{
		{countingBatch(2, "a", "b"), 2, "both are fresh"},
		{countingBatch(2, "a", "b"), 2, "a redelivery"},
		{countingBatch(3, "b", "c"), 3, "an overlap"},
		{countingBatch(1, "a"), 3, "a replay from the beginning"},
	} {
		require.NoError(t, store.Apply(t.Context(), b.batch), b.why)
		requireFigures(t, store, b.want)
	}
	require.Equal(t, int64(3), offset(t, pool), "a replay does not take the offset back")
}

// Claims, figures and the offset are one transaction, so that whatever crashes, none of them is
// there without the others. A group that lost its offsets reads its topics from the start: what the
// inbox has forgotten meanwhile is known by its offset.
func TestPrunedEventsAreNotCountedAgain(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	require.NoError(t, store.Apply(t.Context(), countingBatch(3, "a", "b", "c")))
	_, err := pool.Exec(t.Context(), `DELETE FROM processed_events WHERE event_key <> 'c'`)
	require.NoError(t, err)
	again := countingBatch(5, "a", "b", "c", "d", "e")
	again.Old = map[string]int64{"a": 0, "b": 1, "d": 3} // d has waited for long, and counts
	require.NoError(t, store.Apply(t.Context(), again))
	requireFigures(t, store, 5)

	other := countingBatch(2, "f", "g")
	other.Partition, other.Old = 1, map[string]int64{"f": 0, "g": 1}
	require.NoError(t, store.Apply(t.Context(), other))
	requireFigures(t, store, 7)
}

// A dead letter that was redriven and counted may be redriven again when the inbox has forgotten it.
func TestRedrivenEventCountsOnce(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	redriven := countingBatch(2, "a", "b")
	redriven.Redriven = []string{"b"}
	require.NoError(t, store.Apply(t.Context(), redriven))
	requireFigures(t, store, 2)
	_, err := pool.Exec(t.Context(), `DELETE FROM processed_events`)
	require.NoError(t, err)
	again := countingBatch(4, "b", "c")
	again.Redriven = []string{"b", "c"}
	require.NoError(t, store.Apply(t.Context(), again))
	requireFigures(t, store, 3)
}

// The log of acts outlives figures that are counted anew: their schema is dropped, and the consumer
// starts where nothing is stored.
func TestFiguresAreCountedAnew(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	require.NoError(t, store.Apply(t.Context(), countingBatch(3, "a", "b", "c")))
	require.NoError(t, store.Keep(t.Context(), []audit.Act{newAct(1)}))
	require.NoError(t, store.SaveOffset(t.Context(), events.Audit, 1, 7))
	require.NoError(t, store.SaveOffset(t.Context(), events.Audit, 1, 5), "it is not taken back")
	next, err := store.Offsets(t.Context(), "topic")
	require.NoError(t, err)
	require.Equal(t, map[int32]int64{0: 3}, next)

	_, err = pool.Exec(t.Context(), `DROP SCHEMA figures CASCADE`)
	require.NoError(t, err)
	database := pkgpostgres.Config{URL: config.Secret(pool.Config().ConnString())}
	require.NoError(t, pkgpostgres.MigrateOnce(t.Context(), database, "stats", postgres.Migrations...))
	pool.Reset() // sessions have plans of the tables that were dropped
	requireFigures(t, store, 0)
	next, err = store.Offsets(t.Context(), "topic")
	require.NoError(t, err)
	require.Empty(t, next)
	next, err = store.Offsets(t.Context(), events.Audit)
	require.NoError(t, err)
	require.Equal(t, map[int32]int64{1: 7}, next)
	acts, err := store.List(t.Context(), audit.Filter{Limit: 9})
	require.NoError(t, err)
	require.Len(t, acts, 1)
	require.NoError(t, store.Apply(t.Context(), countingBatch(3, "a", "b", "c")))
	requireFigures(t, store, 3)
}

func TestBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	broken := countingBatch(7, "a", "b")
	broken.Delta = func(map[string]bool) (figures.Delta, error) { return figures.Delta{}, errors.New("cannot be read") }
	require.ErrorContains(t, store.Apply(t.Context(), broken), "cannot be read")
	require.Equal(t, int64(-1), offset(t, pool), "the offset went with the failure")

	require.NoError(t, store.Apply(t.Context(), countingBatch(7, "a", "b")))
	requireFigures(t, store, 2) // so did the claims
	require.Equal(t, int64(7), offset(t, pool))
	var transactions, rows int
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT count(DISTINCT x), count(*) FROM (
		    SELECT xmin::text FROM processed_events UNION ALL SELECT xmin::text FROM event_days
		    UNION ALL SELECT xmin::text FROM revenue_days UNION ALL SELECT xmin::text FROM reward_days
		    UNION ALL SELECT xmin::text FROM consumer_offsets) AS written (x)`).
		Scan(&transactions, &rows))
	require.Equal(t, 6, rows)
	require.Equal(t, 1, transactions)
}

func TestConcurrentReplicas(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	g, ctx := errgroup.WithContext(t.Context())
	const replicas, batches = 8, 20
	for replica := range replicas {
		g.Go(func() error { return applyAll(ctx, store, replica, batches) })
	}
	require.NoError(t, g.Wait())
	requireFigures(t, store, 2*batches) // every replica was given the same events
}

// applyAll applies the same batches as every other replica, some from the end.
func applyAll(ctx context.Context, store *postgres.Store, replica, batches int) error {
	for i := range batches {
		if replica%2 == 1 {
			i = batches - 1 - i
		}
		if err := store.Apply(ctx, countingBatch(int64(i), fmt.Sprint("a", i), fmt.Sprint("b", i))); err != nil {
			return err
		}
	}
	return nil
}

func TestUnknownEventHasZeroes(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	counts, err := store.EventCounts(t.Context(), "nobody-knows")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.EventCounts{}, counts))
	revenue, err := store.EventRevenue(t.Context(), "nobody-knows")
	require.NoError(t, err)
	require.Empty(t, revenue)
	rewards, err := store.EventRewards(t.Context(), "nobody-knows")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.EventRewards{}, rewards))
}
