package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// broken are ways in which a due reservation can contradict what else the database says, as after somebody wrote by hand; mend undoes them.
var broken = map[string]struct{ damage, mend string }{
	"its seat is sold": {
		`UPDATE seats SET status = 'SOLD', held_until = NULL WHERE reservation_id = $1`,
		`UPDATE seats SET status = 'HELD', held_until = (SELECT expires_at FROM reservations WHERE reservation_id = $1) WHERE reservation_id = $1`,
	},
	"it has no live seat": {
		`UPDATE reservation_seats SET live = false WHERE reservation_id = $1`,
		`UPDATE reservation_seats SET live = true WHERE reservation_id = $1`,
	},
	"its section holds less": {
		`UPDATE sections SET held = 0 WHERE event_id = (SELECT event_id FROM reservations WHERE reservation_id = $1)`,
		`UPDATE sections SET held = 1 WHERE event_id = (SELECT event_id FROM reservations WHERE reservation_id = $1)`,
	},
}

// A reservation that cannot be expired must not keep the others from it, however many of its kind stand in front.
func TestExpireDueSkipsWhatContradictsItself(t *testing.T) {
	t.Parallel()
	for name, x := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bad, good, batch = 3, 3, 2
			b := setup(t)
			hold := func(i int) *reservation.Reservation {
				t.Helper()
				id, user := fmt.Sprintf("e%d", i), fmt.Sprintf("u%d", i)
				if name == "its section holds less" {
					b.put(t, spec(id, event.General, admissions("A", 70, 1)))
					r, err := b.holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: id, UserID: user, Section: "A", Quantity: 1})
					require.NoError(t, err)
					return r
				}
				b.put(t, spec(id, event.Assigned, rows("A", 70, 1, 1)))
				r, err := b.holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: id, UserID: user, SeatIDs: []string{"A-1-1"}})
				require.NoError(t, err)
				return r
			}
			var all []uuid.UUID
			for i := range bad + good {
				all = append(all, hold(i).ID)
			}
			execute := func(sql string) {
				t.Helper()
				for _, id := range all[:bad] {
					_, err := b.pool.Exec(t.Context(), sql, id)
					require.NoError(t, err)
				}
			}
			expired := func(ids []uuid.UUID) (n int) {
				for _, id := range ids {
					if b.find(t, id).Status == reservation.Expired {
						n++
					}
				}
				return n
			}
			execute(x.damage)
			b.clock.Advance(holdFor)
			sweep := func(times int) {
				for range times {
					_, _ = b.store.ExpireDue(t.Context(), batch)
					b.clock.Advance(time.Second)
				}
			}
			sweep(20)
			require.Equal(t, good, expired(all[bad:]))
			require.Zero(t, expired(all[:bad]))
			sweep(100)
			require.Equal(t, bad, b.store.Inconsistent())

			execute(x.mend)
			sweep(80) // each is looked at again within a minute
			require.Equal(t, bad, expired(all[:bad]))
			require.Zero(t, b.store.Inconsistent())
			b.requireInvariants(t)
		})
	}
}

// What another replica ends meanwhile, or somebody by hand, is no longer counted.
func TestWhatIsMendedElsewhereIsForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 9)))
	r := b.mustHold(t, "u", "A-1-1")
	b.mustHold(t, "v", "A-1-2")
	x := broken["its seat is sold"]
	_, err := b.pool.Exec(t.Context(), x.damage, r.ID)
	require.NoError(t, err)
	b.clock.Advance(holdFor)
	_, err = b.store.ExpireDue(t.Context(), 10)
	require.ErrorContains(t, err, r.ID.String())
	require.Equal(t, 1, b.store.Inconsistent())
	n, err := b.store.ExpireDue(t.Context(), 10)
	require.NoError(t, err, "told once, not at every sweep")
	require.Zero(t, n)
	_, err = b.pool.Exec(t.Context(), x.mend, r.ID)
	require.NoError(t, err)
	n, err = replica(t, b).store.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.clock.Advance(2 * time.Minute)
	_, err = b.store.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, b.store.Inconsistent())
}
