package holds_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

func key(t *testing.T, user, key string, request ...string) *idempotency.Key {
	t.Helper()
	k, err := idempotency.New(user, "route", key, request...)
	require.NoError(t, err)
	return k
}

// ways are the three ways to hold places. Each test of idempotency keys runs for all of them.
var ways = map[string]struct {
	spec event.Event
	hold func(ctx context.Context, svc *storetest.Service, user string, key *idempotency.Key) (*reservation.Reservation, error)
}{
	"named seats": {
		storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 8)),
		func(ctx context.Context, svc *storetest.Service, user string, key *idempotency.Key) (*reservation.Reservation, error) {
			return svc.Reservations.HoldSeats(ctx, reservation.SeatsRequest{EventID: "e", UserID: user, SeatIDs: []string{"A-1-1"}, IdempotencyKey: key})
		},
	},
	"best seats": {
		storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 1)),
		func(ctx context.Context, svc *storetest.Service, user string, key *idempotency.Key) (*reservation.Reservation, error) {
			return svc.Reservations.HoldBest(ctx, reservation.BestRequest{EventID: "e", UserID: user, Section: "A", Quantity: 1, IdempotencyKey: key})
		},
	},
	"general admission": {
		storetest.Spec("e", event.General, storetest.Admissions("A", 70, 1)),
		func(ctx context.Context, svc *storetest.Service, user string, key *idempotency.Key) (*reservation.Reservation, error) {
			return svc.Reservations.HoldBest(ctx, reservation.BestRequest{EventID: "e", UserID: user, Section: "A", Quantity: 1, IdempotencyKey: key})
		},
	},
}

func TestIdempotencyKeyReplaysTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, way.spec)
			ctx := t.Context()

			first, err := way.hold(ctx, svc, "u", key(t, "u", "k", "body"))
			require.NoError(t, err)
			again, err := way.hold(ctx, svc, "u", key(t, "u", "k", "body"))
			require.NoError(t, err)
			require.Equal(t, first, again)
			_, err = way.hold(ctx, svc, "u", key(t, "u", "k", "another body"))
			require.ErrorIs(t, err, idempotency.ErrReused)
			_, err = way.hold(ctx, svc, "v", key(t, "v", "k", "body"))
			require.Error(t, err, "a key belongs to its user: this is another request, and nothing is left")

			svc.Confirm(t, first, storetest.Payment(first))
			again, err = way.hold(ctx, svc, "u", key(t, "u", "k", "body"))
			require.NoError(t, err)
			require.Equal(t, first, again, "the first answer, not what became of it")
			require.EqualValues(t, 1, svc.Count(t, `SELECT count(*) FROM reservations`))
		})
	}
}

func TestIdempotencyKeyEndsAfterADay(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10)))
	way := ways["general admission"]
	first, err := way.hold(t.Context(), svc, "u", key(t, "u", "k", "body"))
	require.NoError(t, err)
	_, err = svc.Pool.Exec(t.Context(), `UPDATE idempotency_keys SET created_at = now() - interval '24 hours'`)
	require.NoError(t, err)
	second, err := way.hold(t.Context(), svc, "u", key(t, "u", "k", "another body"))
	require.NoError(t, err)
	require.NotEqual(t, first.ID, second.ID)
}

func TestIdempotencyKeyInProgress(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, way.spec)
			k := key(t, "u", "k", "body")
			require.NoError(t, pgx.BeginFunc(t.Context(), svc.Pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, k.AdvisoryLock())
				require.NoError(t, err)
				_, err = way.hold(t.Context(), svc, "u", k)
				require.ErrorIs(t, err, idempotency.ErrInProgress)
				return nil
			}))
			_, err := way.hold(t.Context(), svc, "u", k)
			require.NoError(t, err)
		})
	}
}

// If a user clicks repeatedly, one hold is made, even by different replicas.
func TestIdempotencyKeyUnderRaces(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			otherReplica := svc.Replica(t)
			svc.Put(t, way.spec)
			k := key(t, "u", "k", "body")
			results := storetest.Concurrently(20, func(i int) error {
				replica := svc
				if i%2 == 0 {
					replica = otherReplica
				}
				_, err := way.hold(t.Context(), replica, "u", k)
				if errors.Is(err, reservation.ErrTryAgain) { // another click has not committed yet
					return idempotency.ErrInProgress
				}
				return err
			})
			storetest.CountSucceeded(t, results, idempotency.ErrInProgress)
			// Each call may have found another one in progress, but a later call gets the answer.
			_, err := way.hold(t.Context(), svc, "u", k)
			require.NoError(t, err)
			require.EqualValues(t, 1, svc.Count(t, `SELECT count(*) FROM reservations`))
			svc.RequireInvariants(t)
		})
	}
}
