package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

func key(t *testing.T, user, key string, asked ...string) *idempotency.Key {
	t.Helper()
	k, err := idempotency.New(user, "route", key, asked...)
	require.NoError(t, err)
	return k
}

// holdOnce asks by each of the three ways to hold; what they have in common is tested on all of them.
var holdOnce = map[string]struct {
	spec event.Spec
	hold func(ctx context.Context, b *bundle, user string, once *idempotency.Key) (*reservation.Reservation, error)
}{
	"named seats": {
		spec("e", event.Assigned, rows("A", 70, 1, 8)),
		func(ctx context.Context, b *bundle, user string, once *idempotency.Key) (*reservation.Reservation, error) {
			return b.reservations.HoldSeats(ctx, reservation.SeatsRequest{EventID: "e", UserID: user, SeatIDs: []string{"A-1-1"}, Once: once})
		},
	},
	"best seats": {
		spec("e", event.Assigned, rows("A", 70, 1, 1)),
		func(ctx context.Context, b *bundle, user string, once *idempotency.Key) (*reservation.Reservation, error) {
			return b.reservations.HoldBest(ctx, reservation.BestRequest{EventID: "e", UserID: user, Section: "A", Quantity: 1, Once: once})
		},
	},
	"general admission": {
		spec("e", event.General, admissions("A", 70, 1)),
		func(ctx context.Context, b *bundle, user string, once *idempotency.Key) (*reservation.Reservation, error) {
			return b.reservations.HoldBest(ctx, reservation.BestRequest{EventID: "e", UserID: user, Section: "A", Quantity: 1, Once: once})
		},
	},
}

func TestIdempotencyKeyAnswersAgain(t *testing.T) {
	t.Parallel()
	for name, way := range holdOnce {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, way.spec)
			ctx := t.Context()

			first, err := way.hold(ctx, b, "u", key(t, "u", "k", "body"))
			require.NoError(t, err)
			again, err := way.hold(ctx, b, "u", key(t, "u", "k", "body"))
			require.NoError(t, err)
			require.Equal(t, first, again)
			_, err = way.hold(ctx, b, "u", key(t, "u", "k", "another body"))
			require.ErrorIs(t, err, idempotency.ErrReused)
			_, err = way.hold(ctx, b, "v", key(t, "v", "k", "body"))
			require.Error(t, err, "a key belongs to its user: this is another request, and nothing is left")

			b.paid(t, first, payment(first))
			again, err = way.hold(ctx, b, "u", key(t, "u", "k", "body"))
			require.NoError(t, err)
			require.Equal(t, first, again, "the first answer, not what became of it")
			require.EqualValues(t, 1, b.count(t, `SELECT count(*) FROM reservations`))
		})
	}
}

func TestIdempotencyKeyIsForgottenAfterADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.General, admissions("A", 70, 10)))
	way := holdOnce["general admission"]
	first, err := way.hold(t.Context(), b, "u", key(t, "u", "k", "body"))
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `UPDATE idempotency_keys SET created_at = now() - interval '24 hours'`)
	require.NoError(t, err)
	second, err := way.hold(t.Context(), b, "u", key(t, "u", "k", "another body"))
	require.NoError(t, err)
	require.NotEqual(t, first.ID, second.ID)
}

func TestIdempotencyKeyIsRunning(t *testing.T) {
	t.Parallel()
	for name, way := range holdOnce {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, way.spec)
			k := key(t, "u", "k", "body")
			require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, k.Lock())
				require.NoError(t, err)
				_, err = way.hold(t.Context(), b, "u", k)
				require.ErrorIs(t, err, idempotency.ErrInProgress)
				return nil
			}))
			_, err := way.hold(t.Context(), b, "u", k)
			require.NoError(t, err)
		})
	}
}

// A double click is one hold, whichever replicas it reaches.
func TestIdempotencyKeyUnderRaces(t *testing.T) {
	t.Parallel()
	for name, way := range holdOnce {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			other := replica(t, b)
			b.put(t, way.spec)
			k := key(t, "u", "k", "body")
			results := together(20, func(i int) error {
				from := b
				if i%2 == 0 {
					from = other
				}
				_, err := way.hold(t.Context(), from, "u", k)
				if errors.Is(err, reservation.ErrTryAgain) { // its twin has the seat, but has not committed yet
					return idempotency.ErrInProgress
				}
				return err
			})
			succeeded(t, results, idempotency.ErrInProgress)
			// All of the crowd may have met another one at work; who asks again is answered.
			_, err := way.hold(t.Context(), b, "u", k)
			require.NoError(t, err)
			require.EqualValues(t, 1, b.count(t, `SELECT count(*) FROM reservations`))
			b.requireInvariants(t)
		})
	}
}
