package holds_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/rounds"
	"urr.guru/pkg/rounds/roundstest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/events"
	"urr.guru/services/ticket/internal/postgres/holds"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

// Admissions of a round, and the callers that want them at the same time. The baseline has as many
// sessions as the store has connections.
const (
	storeAdmissions, storeCallers = 20_000, 500
	plainAdmissions, plainCallers = 1_000, 16
)

// BenchmarkGeneralAdmission is the row general_admission_store of `make bench`: the store, which
// decides on all that arrives together, beside a transaction for each admission that updates the
// counter and inserts the reservation and its event. Both leave the same rows.
func BenchmarkGeneralAdmission(b *testing.B) {
	pool, err := pkgpostgres.Open(b.Context(), pkgpostgres.Config{URL: postgrestest.URL(b, postgres.Migrations...), MaxConns: plainCallers}, "bench", pkgpostgres.Indexed())
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	database := postgres.New(pool, postgres.Options{})
	eventStore := events.NewStore(database)
	spec := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10_000_000), storetest.Admissions("B", 70, 10_000_000))
	spec.SalesOpenAt = time.Now().Add(-time.Hour)
	_, err = event.NewService(eventStore, eventStore, eventStore).Put(b.Context(), spec.ID, spec.Spec, nil)
	require.NoError(b, err)
	store := holds.NewStore(database, 12, storetest.HoldFor)
	b.Cleanup(func() { require.NoError(b, store.Close(context.Background())) })

	var users atomic.Int64
	side := func(section string, n, callers int, hold func(ctx context.Context, user string) error) rounds.Side {
		held := int64(0)
		return func(ctx context.Context) (float64, map[string]float64, error) {
			began := time.Now()
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(callers)
			for range n {
				group.Go(func() error { return hold(ctx, fmt.Sprint("u", users.Add(1))) })
			}
			err := group.Wait()
			µs := float64(time.Since(began).Microseconds()) / float64(n)
			held += int64(n)
			requireHeld(b, pool, section, held)
			return µs, nil, err
		}
	}
	roundstest.Compare(b, rounds.Result{
		Name: "general_admission_store", What: "hold an admission in the store, 500 callers", Besides: "a transaction per admission, 16 sessions",
		Unit: "µs per admission", Must: 10, Aim: 15,
	}, side("A", storeAdmissions, storeCallers, func(ctx context.Context, user string) error {
		_, err := store.HoldGeneral(ctx, reservation.BestRequest{EventID: "e", UserID: user, SlotID: "slot", Section: "A", Quantity: 1})
		return err
	}), side("B", plainAdmissions, plainCallers, func(ctx context.Context, user string) error { return admitPlainly(ctx, pool, user) }))
}

// requireHeld fails unless the counter and the reservations of a section have as many admissions.
func requireHeld(b *testing.B, pool *pgxpool.Pool, section string, want int64) {
	b.Helper()
	var counted, reserved int64
	require.NoError(b, pool.QueryRow(b.Context(), `
		SELECT held, (SELECT sum(quantity) FROM reservations r WHERE r.section = s.section) FROM sections s WHERE section = $1`,
		section).Scan(&counted, &reserved))
	require.Equal(b, []int64{want, want}, []int64{counted, reserved})
}

// admitPlainly is the baseline: one admission in a transaction of its own.
func admitPlainly(ctx context.Context, pool *pgxpool.Pool, user string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE sections SET held = held + 1 WHERE event_id = 'e' AND section = 'B' AND held + sold < capacity`)
		if err != nil || tag.RowsAffected() == 0 {
			return fmt.Errorf("no admission: %w", err)
		}
		r := reservation.NewHeld(reservation.Hold{
			ID: uuid.Must(uuid.NewV7()), EventID: "e", UserID: user, SlotID: "slot", Section: "B", Quantity: 1, Amount: 70, Currency: "KRW", For: storetest.HoldFor,
		}, time.Now())
		_, err = tx.Exec(ctx, `
			INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at,
			                          hold_ends_at, version, created_at)
			VALUES ($1, 'e', $2, 'slot', 'B', 1, 70, 'KRW', 'HELD', $3, $3, 1, $4)`, r.ID, user, r.ExpiresAt, r.CreatedAt)
		if err != nil {
			return err
		}
		return reservations.InsertEvents(ctx, tx, r.TakeEvents())
	})
}
