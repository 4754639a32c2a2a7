package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: postgrestest.PatientURL(t, postgres.Migrations...), MaxConns: 16}, t.Name(),
		postgres.SearchPath())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return postgres.NewStore(pool), pool
}

// fixedBatch returns a batch that adds d, whether or not its events are already counted.
func fixedBatch(next int64, d figures.Delta, ids ...string) figures.Batch {
	return figures.Batch{
		Topic: "topic", Next: next, EventIDs: ids, Delta: func(map[string]bool) (figures.Delta, error) { return d, nil },
	}
}

// figuresOfE are the figures of event e to which countingBatch adds.
var figuresOfE = []figures.ID{
	{Figure: figures.Created}, {Figure: figures.SeatsSold}, {Figure: figures.PointsPaid}, {Figure: figures.RequestsFailed},
	{Figure: figures.Sale, Currency: "KRW"}, {Figure: figures.Sale, Currency: "USD"},
}

// countingBatch returns a batch that adds 1 to each of figuresOfE for every id not counted yet.
func countingBatch(next int64, ids ...string) figures.Batch {
	b := fixedBatch(next, nil, ids...)
	b.Delta = func(fresh map[string]bool) (figures.Delta, error) {
		n, d := int64(len(fresh)), figures.Delta{}
		for _, id := range figuresOfE {
			if n > 0 {
				d[figures.Key{EventID: "e", Minute: saturday, Figure: id.Figure, Currency: id.Currency}] = figures.Sum{Amount: n, Times: n}
			}
		}
		return d, nil
	}
	return b
}

// requireFigures fails the test unless every figure of event e is n.
func requireFigures(t *testing.T, store *postgres.Store, n int64) {
	t.Helper()
	var want figures.Figures
	for _, id := range figuresOfE {
		if n > 0 {
			want.Set(id, figures.Sum{Amount: n, Times: n})
		}
	}
	got, err := store.EventFigures(t.Context(), "e")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got.Figures))
	points, err := store.EventSeries(t.Context(), figures.SeriesQuery{EventID: "e", From: saturday, To: sunday, Step: time.Hour})
	require.NoError(t, err)
	if n == 0 {
		require.Empty(t, points)
		return
	}
	require.Empty(t, cmp.Diff([]figures.Point{{At: saturday, Figures: want}}, points))
}

// offset returns the saved offset of the one partition of these tests, -1 if there is none.
func offset(t *testing.T, pool *pgxpool.Pool) (next int64) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT coalesce(max(next_offset), -1) FROM consumer_offsets`).Scan(&next))
	return next
}

// key returns the key of a figure of an event, in a minute of Saturday.
func key(event string, minute int, figure figures.Figure, currency string) figures.Key {
	return figures.Key{EventID: event, Minute: saturday.Add(time.Duration(minute) * time.Minute), Figure: figure, Currency: currency}
}

func sum(amount, times int64) figures.Sum { return figures.Sum{Amount: amount, Times: times} }

func TestFiguresAddUpByMinute(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	require.NoError(t, store.At(noon).Apply(t.Context(), fixedBatch(1, figures.Delta{
		key("e", 0, figures.Created, ""): {Amount: 1, Times: 1}, key("e", 0, figures.SeatsSold, ""): {Amount: 6, Times: 2},
		key("e", 1, figures.Sale, "KRW"): {Amount: 100, Times: 3}, key("f", 0, figures.Created, ""): {Amount: 7, Times: 7},
	}, "1")))
	require.NoError(t, store.At(noon.Add(time.Hour)).Apply(t.Context(), fixedBatch(2, figures.Delta{
		key("e", 0, figures.SeatsSold, ""): {Amount: -8, Times: 1}, key("e", 5, figures.Created, ""): {Amount: 10, Times: 10},
		key("e", 3, figures.Created, ""): {Amount: 20, Times: 20}, key("e", 1, figures.Sale, "KRW"): {Amount: 11, Times: 1},
		key("e", 1, figures.Sale, "USD"): {Amount: 5, Times: 1},
	}, "2")))

	created, seats := figures.ID{Figure: figures.Created}, figures.ID{Figure: figures.SeatsSold}
	won, dollars := figures.ID{Figure: figures.Sale, Currency: "KRW"}, figures.ID{Figure: figures.Sale, Currency: "USD"}
	got, err := store.EventFigures(t.Context(), "e")
	require.NoError(t, err)
	later := noon.Add(time.Hour)
	require.Empty(t, cmp.Diff(figures.EventFigures{
		Figures: figures.Figures{created: sum(31, 31), seats: sum(-2, 3), won: sum(111, 4), dollars: sum(5, 1)},
		Updated: map[figures.ID]time.Time{created: later, seats: later, won: later, dollars: later},
	}, got))

	query := figures.SeriesQuery{EventID: "e", From: saturday, To: sunday, Step: 2 * time.Minute}
	points, err := store.EventSeries(t.Context(), query)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]figures.Point{
		{At: saturday, Figures: figures.Figures{created: sum(1, 1), seats: sum(-2, 3), won: sum(111, 4), dollars: sum(5, 1)}},
		{At: saturday.Add(2 * time.Minute), Figures: figures.Figures{created: sum(20, 20)}},
		{At: saturday.Add(4 * time.Minute), Figures: figures.Figures{created: sum(10, 10)}},
	}, points))
	query.From, query.To, query.Public = saturday.Add(time.Minute), saturday.Add(5*time.Minute), true
	points, err = store.EventSeries(t.Context(), query)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]figures.Point{{At: saturday.Add(3 * time.Minute), Figures: figures.Figures{created: sum(20, 20)}}}, points), "steps begin with from")

	requireRows(t, pool, []string{"e created 31 00:00-00:05", "e sale 111 00:01-00:01", "e sale 5 00:01-00:01", "e seats_sold -2 00:00-00:00", "f created 7 00:00-00:00"}, `
		SELECT concat_ws(' ', event_id, figure, amount, to_char(first_at AT TIME ZONE 'UTC', 'HH24:MI') || '-' || to_char(last_at AT TIME ZONE 'UTC', 'HH24:MI'))
		FROM totals ORDER BY 1`)
}

// Figures are summed by the day of the event's time zone, also if its offset from UTC is not a
// whole hour.
func TestDaysAreThoseOfTheEvent(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	d := figures.Delta{}
	for event, times := range map[string][]string{
		"seoul":     {"2026-11-20T14:59:00Z", "2026-11-20T15:00:00Z", "2026-11-21T14:59:00Z", "2026-11-21T15:00:00Z"},
		"kathmandu": {"2026-11-20T18:14:00Z", "2026-11-20T18:15:00Z", "2026-11-21T18:14:00Z", "2026-11-21T18:15:00Z"},
		"new-york":  {"2026-11-21T04:59:00Z", "2026-11-21T05:00:00Z", "2026-11-22T04:59:00Z", "2026-11-22T05:00:00Z"},
		"":          {"2026-11-21T12:00:00Z"},
	} {
		for i, text := range times {
			at, err := time.Parse(time.RFC3339, text)
			require.NoError(t, err)
			d[figures.Key{EventID: event, Minute: at, Figure: figures.Created}] = figures.Sum{Amount: int64(1) << i, Times: 1}
		}
	}
	require.NoError(t, store.Apply(t.Context(), fixedBatch(1, d, "1")))
	ids, err := store.CountedEvents(t.Context(), saturday, saturday)
	require.NoError(t, err)
	require.Equal(t, []string{"", "kathmandu", "new-york", "seoul"}, ids)
	ids, err = store.CountedEvents(t.Context(), saturday.AddDate(0, 0, 3), saturday.AddDate(0, 0, 9))
	require.NoError(t, err)
	require.Empty(t, ids)

	q := figures.DaysQuery{From: saturday, To: sunday, Limit: 9, Zones: map[string]string{
		"": "Asia/Seoul", "seoul": "Asia/Seoul", "kathmandu": "Asia/Kathmandu", "new-york": "America/New_York",
	}}
	requireDays := func(want ...string) {
		t.Helper()
		days, err := store.EventDays(t.Context(), q)
		require.NoError(t, err)
		var got []string
		for _, day := range days {
			require.Equal(t, q.Zones[day.EventID], day.Zone)
			got = append(got, fmt.Sprintf("%s %s %d", day.Day.Format(time.DateOnly), day.EventID, day.Count(figures.Created)))
		}
		require.Equal(t, want, got)
	}
	requireDays("2026-11-21  1", "2026-11-21 kathmandu 6", "2026-11-21 new-york 6", "2026-11-21 seoul 6",
		"2026-11-22 kathmandu 8", "2026-11-22 new-york 8", "2026-11-22 seoul 8")
	q.AfterDay, q.AfterEvent, q.Limit = saturday, "new-york", 2
	requireDays("2026-11-21 seoul 6", "2026-11-22 kathmandu 8")
	q.To, q.AfterDay, q.AfterEvent = saturday, time.Time{}, ""
	delete(q.Zones, "")
	delete(q.Zones, "seoul")
	requireDays("2026-11-21 kathmandu 6", "2026-11-21 new-york 6")
}

// Minutes are deleted when they are old, and their quarters of an hour stay. Events of that time may
// still be added later. A series shows quarters where minutes may be deleted.
func TestOldMinutesAreDeleted(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	minutes := func(list ...int) figures.Delta {
		d := figures.Delta{}
		for _, m := range list {
			d[key("e", m, figures.Created, "")] = sum(1, 1)
			d[key("e", m, figures.Sale, "KRW")] = sum(100, 1)
		}
		return d
	}
	require.NoError(t, store.Apply(t.Context(), fixedBatch(1, minutes(0, 1, 14, 15, 16, 44, 45, 59, 60, 61), "1")))
	deleted := func(want int) {
		t.Helper()
		got, err := store.DeleteMinutes(t.Context(), saturday.Add(time.Hour))
		require.NoError(t, err)
		require.EqualValues(t, want, got)
	}
	deleted(2 * 8)
	require.NoError(t, store.Apply(t.Context(), fixedBatch(2, minutes(2, 30), "2")))
	quarters := []string{"00:00 4 4", "00:15 2 2", "00:30 2 2", "00:45 2 2", "01:00 2 2"}
	rows := func(table, column string, want ...string) {
		t.Helper()
		requireRows(t, pool, want, fmt.Sprintf(
			`SELECT to_char(%[2]s AT TIME ZONE 'UTC', 'HH24:MI') || ' ' || amount || ' ' || times FROM %[1]s WHERE figure = 'created' ORDER BY 1`, table, column))
	}
	rows("quarters", "quarter", quarters...)
	rows("minutes", "minute", "00:02 1 1", "00:30 1 1", "01:00 1 1", "01:01 1 1")
	deleted(2 * 2)
	rows("quarters", "quarter", quarters...)
	requireRows(t, pool, []string{"created 12", "sale 1200"}, `SELECT figure || ' ' || sum(amount) FROM quarters GROUP BY figure ORDER BY 1`)

	series := func(now time.Time, step time.Duration) (out []string) {
		t.Helper()
		points, err := store.At(now).EventSeries(t.Context(), figures.SeriesQuery{EventID: "e", From: saturday, To: saturday.Add(2 * time.Hour), Step: step, Public: true})
		require.NoError(t, err)
		for _, p := range points {
			n := p.Figures[figures.ID{Figure: figures.Created}]
			out = append(out, fmt.Sprintf("%s %d %d", p.At.Format("15:04"), n.Amount, n.Times))
		}
		return out
	}
	cut := saturday.Add(time.Hour + postgres.MinutesKept) // minutes are read from 01:00 on
	require.Equal(t, []string{"00:00 4 4", "00:15 2 2", "00:30 2 2", "00:45 2 2", "01:00 1 1", "01:01 1 1"}, series(cut.Add(14*time.Minute), time.Minute))
	require.Equal(t, quarters, series(cut.Add(15*time.Minute), time.Minute), "all of them are quarters")
	require.Equal(t, quarters, series(noon, 15*time.Minute), "whole quarters need no minutes")
}

// The days and the series of whole quarters are the sums of the minutes, whatever was added when.
func TestQuartersEqualMinutes(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	const seed, replicas = 7, 4
	var work errgroup.Group
	for r := range replicas {
		random := rand.New(rand.NewPCG(seed, uint64(r)))
		work.Go(func() error {
			for n := range 20 {
				d := figures.Delta{}
				for range 30 {
					minute := random.IntN(3 * 24 * 60)
					d[key(fmt.Sprint("e", random.IntN(3)), minute, figures.Created, "")] = sum(random.Int64N(9)-4, 1)
				}
				b := fixedBatch(int64(n+1), d, fmt.Sprint(r, "-", n))
				b.Partition = int32(r)
				if err := store.Apply(t.Context(), b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, work.Wait())
	requireRows(t, pool, []string{}, `
		SELECT concat_ws(' ', event_id, quarter, q.amount, m.amount, q.times, m.times) FROM quarters AS q FULL JOIN (
		    SELECT event_id, date_bin('15 minutes', minute, '2000-01-01 00:00:00+00') AS quarter, figure, currency, sum(amount) AS amount, sum(times) AS times
		    FROM minutes GROUP BY 1, 2, 3, 4) AS m USING (event_id, quarter, figure, currency)
		WHERE (q.amount, q.times) IS DISTINCT FROM (m.amount, m.times)`)
	series := func(from time.Time) (total figures.Sum) {
		t.Helper()
		points, err := store.At(noon).EventSeries(t.Context(), figures.SeriesQuery{EventID: "e0", From: from, To: from.Add(25 * time.Hour), Step: 30 * time.Minute})
		require.NoError(t, err)
		for _, p := range points {
			total = total.Add(p.Figures[figures.ID{Figure: figures.Created}])
		}
		return total
	}
	byQuarter := series(saturday)
	var byMinute figures.Sum
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT sum(amount), sum(times) FROM minutes WHERE event_id = 'e0' AND minute >= $1 AND minute < $2`,
		saturday, saturday.Add(25*time.Hour)).Scan(&byMinute.Amount, &byMinute.Times))
	require.Equal(t, byMinute, byQuarter)
}

// requireRows fails the test unless the query returns the wanted lines.
func requireRows(t *testing.T, pool *pgxpool.Pool, want []string, query string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), query)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, want, got)
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

// A consumer group that lost its offsets reads its topics from the start. The inbox may have
// deleted the id of a counted event. The saved offset then shows that the event is counted, since
// it is saved in one transaction with the figures.
func TestPrunedEventsAreNotCountedAgain(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	require.NoError(t, store.Apply(t.Context(), countingBatch(3, "a", "b", "c")))
	_, err := pool.Exec(t.Context(), `DELETE FROM processed_events WHERE event_key <> 'c'`)
	require.NoError(t, err)
	reread := countingBatch(5, "a", "b", "c", "d", "e")
	reread.Old = map[string]int64{"a": 0, "b": 1, "d": 3} // d is old, but not counted yet
	require.NoError(t, store.Apply(t.Context(), reread))
	requireFigures(t, store, 5)

	otherPartition := countingBatch(2, "f", "g")
	otherPartition.Partition, otherPartition.Old = 1, map[string]int64{"f": 0, "g": 1}
	require.NoError(t, store.Apply(t.Context(), otherPartition))
	requireFigures(t, store, 7)
}

// A dead letter that is redriven again counts once, though the inbox has deleted its id meanwhile.
func TestRedrivenEventCountsOnce(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	redriven := countingBatch(2, "a", "b")
	redriven.Redriven = []string{"b"}
	require.NoError(t, store.Apply(t.Context(), redriven))
	requireFigures(t, store, 2)
	_, err := pool.Exec(t.Context(), `DELETE FROM processed_events`)
	require.NoError(t, err)
	redrivenAgain := countingBatch(4, "b", "c")
	redrivenAgain.Redriven = []string{"b", "c"}
	require.NoError(t, store.Apply(t.Context(), redrivenAgain))
	requireFigures(t, store, 3)
}

// After the schema of the figures was dropped, all figures are counted anew. The log of acts and
// its offsets stay.
func TestFiguresAreCountedAnew(t *testing.T) {
	t.Parallel()
	store, pool := setup(t)
	require.NoError(t, store.Apply(t.Context(), countingBatch(3, "a", "b", "c")))
	keep(t, store, newAct(1))
	require.NoError(t, store.SaveOffset(t.Context(), events.Audit, 1, 7))
	require.NoError(t, store.SaveOffset(t.Context(), events.Audit, 1, 5), "it is not taken back")
	next, err := store.Offsets(t.Context(), "topic")
	require.NoError(t, err)
	require.Equal(t, map[int32]int64{0: 3}, next)

	_, err = pool.Exec(t.Context(), `DROP SCHEMA figures CASCADE`)
	require.NoError(t, err)
	database := pkgpostgres.Config{URL: config.Secret(pool.Config().ConnString())}
	require.NoError(t, pkgpostgres.MigrateOnce(t.Context(), database, "stats", postgres.Migrations...))
	pool.Reset() // sessions cache plans for the dropped tables
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
	broken.Delta = func(map[string]bool) (figures.Delta, error) { return nil, errors.New("cannot be read") }
	require.ErrorContains(t, store.Apply(t.Context(), broken), "cannot be read")
	require.Equal(t, int64(-1), offset(t, pool), "the offset went with the failure")

	require.NoError(t, store.Apply(t.Context(), countingBatch(7, "a", "b")))
	requireFigures(t, store, 2) // the claims were rolled back too
	require.Equal(t, int64(7), offset(t, pool))
	var transactions, rows int
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT count(DISTINCT x), count(*) FROM (
		    SELECT xmin::text FROM processed_events UNION ALL SELECT xmin::text FROM minutes UNION ALL SELECT xmin::text FROM quarters
		    UNION ALL SELECT xmin::text FROM totals UNION ALL SELECT xmin::text FROM consumer_offsets) AS written (x)`).
		Scan(&transactions, &rows))
	require.Equal(t, 2+3*len(figuresOfE)+1, rows)
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

// applyAll applies the batches that every replica applies. Odd replicas begin with the last batch.
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
