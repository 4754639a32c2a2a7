package expiry_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

// contradiction is a way in which a due reservation can contradict other rows, as after a manual
// write: statements that cause and repair it.
type contradiction struct {
	spec           func(id string) event.Event
	damage, repair string
}

func specOfOneSeat(id string) event.Event {
	return storetest.Spec(id, event.Assigned, storetest.Rows("A", 70, 1, 1))
}

func specOfOneAdmission(id string) event.Event {
	return storetest.Spec(id, event.General, storetest.Admissions("A", 70, 1))
}

var contradictions = map[string]contradiction{
	"its seat is sold": {
		specOfOneSeat,
		`UPDATE seats SET status = 'SOLD', held_until = NULL WHERE reservation_id = $1`,
		`UPDATE seats SET status = 'HELD', held_until = (SELECT expires_at FROM reservations WHERE reservation_id = $1) WHERE reservation_id = $1`,
	},
	"it has no live seat": {
		specOfOneSeat,
		`UPDATE places SET live = false WHERE reservation_id = $1`,
		`UPDATE places SET live = true WHERE reservation_id = $1`,
	},
	"its section holds less": {
		specOfOneAdmission,
		`UPDATE sections SET held = 0 WHERE event_id = (SELECT event_id FROM reservations WHERE reservation_id = $1)`,
		`UPDATE sections SET held = 1 WHERE event_id = (SELECT event_id FROM reservations WHERE reservation_id = $1)`,
	},
}

// holdOnePlaceEach makes n events of one place each, and holds each place.
func holdOnePlaceEach(t *testing.T, svc *storetest.Service, n int, spec func(id string) event.Event) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		id, user := fmt.Sprintf("e%d", i), fmt.Sprintf("u%d", i)
		svc.Put(t, spec(id))
		r, err := svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: id, UserID: user, Section: "A", Quantity: 1})
		require.NoError(t, err)
		ids[i] = r.ID
	}
	return ids
}

// execute runs a statement once for each of the reservations.
func execute(t *testing.T, svc *storetest.Service, sql string, ids []uuid.UUID) {
	t.Helper()
	for _, id := range ids {
		_, err := svc.Pool.Exec(t.Context(), sql, id)
		require.NoError(t, err)
	}
}

// countExpired counts the reservations that have expired.
func countExpired(t *testing.T, svc *storetest.Service, ids []uuid.UUID) (n int) {
	t.Helper()
	for _, id := range ids {
		if svc.Find(t, id).Status == reservation.Expired {
			n++
		}
	}
	return n
}

// All due reservations expire, even if inconsistent ones come before them in the order.
func TestExpireDueSkipsContradictions(t *testing.T) {
	t.Parallel()
	for name, c := range contradictions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bad, good, batch = 3, 3, 2
			svc := storetest.New(t)
			ids := holdOnePlaceEach(t, svc, bad+good, c.spec)
			sweep := func(times int) {
				for range times {
					_, _ = svc.Expiry.ExpireDue(t.Context(), batch)
					svc.Clock.Advance(time.Second)
				}
			}
			execute(t, svc, c.damage, ids[:bad])
			svc.Clock.Advance(storetest.HoldFor)
			sweep(20)
			require.Equal(t, good, countExpired(t, svc, ids[bad:]))
			require.Zero(t, countExpired(t, svc, ids[:bad]))
			sweep(100)
			require.Equal(t, bad, svc.Expiry.Inconsistent())

			execute(t, svc, c.repair, ids[:bad])
			sweep(80) // each is tried again within a minute
			require.Equal(t, bad, countExpired(t, svc, ids[:bad]))
			require.Zero(t, svc.Expiry.Inconsistent())
			svc.RequireInvariants(t)
		})
	}
}

// A reservation that another replica has expired no longer counts as inconsistent.
func TestInconsistentForgetsReservationsExpiredElsewhere(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	svc.MustHoldSeats(t, "v", "A-1-2")
	c := contradictions["its seat is sold"]
	execute(t, svc, c.damage, []uuid.UUID{r.ID})
	svc.Clock.Advance(storetest.HoldFor)
	_, err := svc.Expiry.ExpireDue(t.Context(), 10)
	require.ErrorContains(t, err, r.ID.String())
	require.Equal(t, 1, svc.Expiry.Inconsistent())
	n, err := svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err, "reported once, not at every sweep")
	require.Zero(t, n)
	execute(t, svc, c.repair, []uuid.UUID{r.ID})
	n, err = svc.Replica(t).Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	svc.Clock.Advance(2 * time.Minute)
	_, err = svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, svc.Expiry.Inconsistent())
}

func TestReplicasExpireEachReservationOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 10, 20)))
	for i := range 60 {
		svc.MustHoldSeats(t, fmt.Sprintf("u%d", i), fmt.Sprintf("A-%d-%d", i/10+1, i%10*2+1), fmt.Sprintf("A-%d-%d", i/10+1, i%10*2+2))
	}
	svc.Clock.Advance(time.Minute)
	keep := svc.MustHoldSeats(t, "keep", "A-9-1")
	svc.Clock.Advance(storetest.HoldFor - time.Minute)

	ctx, cancel := testkit.Context(t)
	defer cancel()
	replicas := []*storetest.Service{svc, svc.Replica(t), svc.Replica(t)}
	var total atomic.Int64
	for _, err := range storetest.Concurrently(len(replicas), func(i int) error {
		for total.Load() < 60 {
			n, err := replicas[i].Expiry.ExpireDue(ctx, 20)
			if err != nil {
				return err
			}
			total.Add(int64(n))
		}
		return nil
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 60, total.Load(), "each once")
	require.EqualValues(t, 60, svc.Count(t, `SELECT count(*) FROM outbox WHERE type = 'RESERVATION_EXPIRED'`))
	require.Equal(t, reservation.Held, svc.Find(t, keep.ID).Status)
	svc.RequireInvariants(t)
}
