package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/rounds"
	"urr.guru/pkg/rounds/roundstest"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
)

const (
	changedPayments = 4000 // of a round: about a second
	changers        = 8    // at the same time
)

// BenchmarkOutboxWriteCost is the row outbox_write_cost of `make bench`: the transaction that records
// a charge, with its event, beside the same transaction without one.
func BenchmarkOutboxWriteCost(b *testing.B) {
	pool := postgrestest.New(b, postgres.Migrations...)
	store := postgres.NewStore(pool, postgres.Options{})
	side := func(event payment.Event, events int) rounds.Side {
		return func(ctx context.Context) (float64, map[string]float64, error) {
			ids := preparedPayments(b, pool)
			began := time.Now()
			require.NoError(b, chargeAll(ctx, store, ids, event))
			took := time.Since(began)
			var charged, written int
			require.NoError(b, pool.QueryRow(ctx, `
				SELECT (SELECT count(*) FROM payments WHERE status = 'CONFIRMED'), (SELECT count(*) FROM outbox)`).Scan(&charged, &written))
			require.Equal(b, []int{changedPayments, events}, []int{charged, written})
			return took.Seconds() * 1e6 / changedPayments, nil, nil
		}
	}
	roundstest.Compare(b, rounds.Result{
		Name: "outbox_write_cost", What: "the transaction that records a charge, with its event", Besides: "without the event", Unit: "µs per transaction", Must: 0.8, Aim: 0.9,
	}, side(payment.EventConfirmed, changedPayments), side("", 0))
}

// preparedPayments makes the payments of a round.
func preparedPayments(b *testing.B, pool *pgxpool.Pool) []uuid.UUID {
	b.Helper()
	_, err := pool.Exec(b.Context(), `TRUNCATE outbox, payment_timeline, refunds, payments`)
	require.NoError(b, err)
	rows, err := pool.Query(b.Context(), `
		INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, expires_at, check_at)
		SELECT id, id, 'reservation', gen_random_uuid(), 'ann', 'e', 1000, 'KRW', 'sandbox', 'PREPARED', now() + interval '1 h', now() + interval '1 h'
		FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $1)) AS made RETURNING id`, changedPayments)
	require.NoError(b, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(b, err)
	return ids
}

// chargeAll records a charge of each payment.
func chargeAll(ctx context.Context, store *postgres.Store, ids []uuid.UUID, event payment.Event) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range changers {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(ids)); i = next.Add(1) - 1 {
				if _, err := store.Apply(ctx, ids[i], charged(event)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// charged is the decision after a charge.
func charged(event payment.Event) payment.Decide {
	return func(p payment.Payment, _ time.Time) (*payment.Change, error) {
		return &payment.Change{
			Status: payment.Confirmed, Note: "charged", ChargeID: "charge", Check: payment.Never, Event: event,
			Answer: &payment.Answer{Status: payment.Confirmed, PaymentID: p.ID},
		}, nil
	}
}
