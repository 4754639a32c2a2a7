package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/benchtest/gotest"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/kafka"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/wire"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/figures"
	stats "urr.guru/services/stats/internal/kafka"
	"urr.guru/services/stats/internal/postgres"
)

// countedInBatches and countedSingly are the events per round, which takes about half a second.
const (
	countedInBatches = 20_000
	countedSingly    = 500
)

// BenchmarkStatsConsume measures the row stats_consume of `make bench`: counting full batches,
// compared with one transaction per event. Both decode every event and write the same rows.
func BenchmarkStatsConsume(b *testing.B) {
	pool, err := pkgpostgres.Open(b.Context(), pkgpostgres.Config{URL: postgrestest.URL(b, postgres.Migrations...), MaxConns: 16}, b.Name(),
		postgres.SearchPath())
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	service := figures.NewService(postgres.NewStore(pool), inbox.Retention, time.Now)
	var offset int64
	measure := func(n int, count func([]kafka.Record) error) benchtest.MeasureFunc {
		return func(context.Context) (float64, map[string]float64, error) {
			_, err := pool.Exec(b.Context(), `TRUNCATE processed_events, minutes, totals`)
			require.NoError(b, err)
			recs := confirmations(b, offset, n)
			offset += int64(n)
			began := time.Now()
			require.NoError(b, count(recs))
			took := time.Since(began)
			var counted, seats int
			require.NoError(b, pool.QueryRow(b.Context(), `
				SELECT (SELECT count(*) FROM processed_events), (SELECT sum(amount) FROM totals WHERE figure = 'seats_sold')`).Scan(&counted, &seats))
			require.Equal(b, []int{n, 2 * n}, []int{counted, seats})
			return took.Seconds() * 1e6 / float64(n), nil, nil
		}
	}
	gotest.Compare(b, benchtest.Result{
		Name: "stats_consume", What: "count the events of a partition, in full batches", Besides: "one transaction per event", Unit: "µs per event", Must: 20, Aim: 25,
	}, measure(countedInBatches, func(recs []kafka.Record) error { return countBatches(b.Context(), service, recs) }),
		measure(countedSingly, func(recs []kafka.Record) error { return countSingly(b.Context(), pool, recs) }))
}

// confirmations returns records of confirmed reservations of two seats each, for five events.
func confirmations(b *testing.B, firstOffset int64, n int) []kafka.Record {
	b.Helper()
	now := time.Now()
	recs := make([]kafka.Record, n)
	for i := range recs {
		value, err := wire.Marshal(&eventsv1.ReservationEvent{
			Type: events.ReservationConfirmed, ReservationId: uuid.NewString(), EventId: fmt.Sprint("concert-", i%5), UserId: uuid.NewString(), SlotId: uuid.NewString(),
			Status: "CONFIRMED", SeatIds: []string{"A-1-1", "A-1-2"}, Section: "A", Quantity: 2, Amount: 110_000, Currency: "KRW", Version: 3,
			PaymentId: proto.String(uuid.NewString()), OccurredAt: timestamppb.New(now),
		})
		require.NoError(b, err)
		recs[i] = kafka.Record{
			Topic: events.Reservations, ReadFrom: events.Reservations, Offset: firstOffset + int64(i),
			EventID: uuid.Must(uuid.NewV7()).String(), Value: value, Time: now,
		}
	}
	return recs
}

// countBatches counts records in full batches, as the consumer does when many are waiting.
func countBatches(ctx context.Context, counter stats.RecordCounter, recs []kafka.Record) error {
	for len(recs) > 0 {
		n := min(stats.BatchSize, len(recs))
		if err := counter.Count(ctx, recs[0].Topic, recs[0].Partition, stats.ToRecords(recs[:n])); err != nil {
			return err
		}
		recs = recs[n:]
	}
	return nil
}

// countSingly is the baseline. It counts each event in a transaction of its own.
func countSingly(ctx context.Context, pool *pgxpool.Pool, recs []kafka.Record) error {
	for _, rec := range recs {
		var e eventsv1.ReservationEvent
		if err := kafka.Decode(rec, &e); err != nil {
			return err
		}
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			fresh, err := inbox.Claim(ctx, tx, rec.EventID, figures.Group)
			if err != nil || !fresh {
				return err
			}
			_, err = tx.Exec(ctx, `
				WITH added (figure, amount) AS (VALUES ('confirmed', 1::bigint), ('seats_sold', $3)), minute AS (
				    INSERT INTO minutes (event_id, minute, figure, currency, amount, times)
				    SELECT $1, date_trunc('minute', $2::timestamptz), figure, '', amount, 1 FROM added
				    ON CONFLICT (event_id, minute, figure, currency) DO UPDATE SET amount = minutes.amount + excluded.amount, times = minutes.times + 1)
				INSERT INTO totals (event_id, figure, currency, amount, times, first_at, last_at)
				SELECT $1, figure, '', amount, 1, date_trunc('minute', $2), date_trunc('minute', $2) FROM added
				ON CONFLICT (event_id, figure, currency) DO UPDATE
				SET amount = totals.amount + excluded.amount, times = totals.times + 1, first_at = least(totals.first_at, excluded.first_at),
				    last_at = greatest(totals.last_at, excluded.last_at), updated_at = now()`,
				e.GetEventId(), e.GetOccurredAt().AsTime(), e.GetQuantity())
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
