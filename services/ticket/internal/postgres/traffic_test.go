package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// shopper does to one sale whatever buyers, payment, its providers and the sweeper may do, in any order.
type shopper struct {
	*bundle
	t    *testing.T
	user string
	hold func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error)
}

func (s shopper) run(ctx context.Context) {
	r, err := s.hold(ctx, s.bundle, s.user)
	if err != nil {
		s.expected(err)
		return
	}
	p := payment(r)
	for range rand.N(4) {
		switch rand.N(7) {
		case 0:
			s.expected(s.reservations.Cancel(ctx, s.user, "", r.ID))
		case 1, 2:
			_, err := s.reservations.BeginPayment(ctx, s.user, r.ID, p.ID)
			s.expected(err)
		case 3:
			s.expected(s.reservations.AbortPayment(ctx, r.ID, p.ID))
		case 4:
			s.settled(ctx, reservation.PaymentEvent{ReservationID: r.ID, Payment: p})
		case 5:
			s.settled(ctx, reservation.PaymentEvent{ReservationID: r.ID, Payment: p, Refunded: true, Cause: reservation.CauseUser})
		case 6:
			s.lapsed(ctx, r.ID)
		}
	}
}

func (s shopper) settled(ctx context.Context, e reservation.PaymentEvent) {
	e.Key = uuid.NewString()
	s.expected(s.store.Settle(ctx, group, []reservation.PaymentEvent{e}))
}

// lapsed lets time pass for a hold, as one statement does it: with its seats.
func (s shopper) lapsed(ctx context.Context, id uuid.UUID) {
	_, err := s.pool.Exec(ctx, `
		WITH locked AS (SELECT 1 FROM seats WHERE reservation_id = $1 ORDER BY idx FOR UPDATE),
		r AS (UPDATE reservations SET expires_at = now() - interval '1 s'
			WHERE reservation_id = $1 AND status IN ('HELD', 'PAYING') AND (SELECT count(*) FROM locked) >= 0 RETURNING expires_at)
		UPDATE seats SET held_until = r.expires_at FROM r WHERE reservation_id = $1 AND status = 'HELD'`, id)
	assert.NoError(s.t, err)
}

// expected lets refusals pass, and nothing else.
func (s shopper) expected(err error) {
	if e := errs.From(err); e != nil && e.Kind != errs.Conflict && ctxAlive(err) {
		s.t.Errorf("%s: %v", s.user, err)
	}
}

func ctxAlive(err error) bool { return !errors.Is(err, context.Canceled) }

// While all of that goes on, on two replicas, every snapshot of the database obeys every invariant.
func TestInvariantsUnderTraffic(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec event.Spec
		hold func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error)
	}{
		"named seats": {spec("e", event.Assigned, rows("A", 70, 2, 20)), func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error) {
			seat := rand.N(18) + 1
			row := rand.N(2) + 1
			return b.hold(ctx, user, fmt.Sprintf("A-%d-%d", row, seat+2), fmt.Sprintf("A-%d-%d", row, seat))
		}},
		"best seats": {spec("e", event.Assigned, rows("A", 70, 2, 20)), func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error) {
			return b.best(ctx, user, rand.N(3)+1)
		}},
		"general admission": {spec("e", event.General, admissions("A", 70, 40)), func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error) {
			return b.best(ctx, user, rand.N(3)+1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			replicas := []*bundle{b, replica(t, b.pool)}
			b.put(t, c.spec)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						// A dozen users, so that the limit matters.
						s := shopper{bundle: replicas[(i+n)%2], t: t, user: fmt.Sprintf("u%d", rand.N(12)), hold: c.hold}
						s.run(context.WithoutCancel(ctx))
					}
				})
			}
			wg.Go(func() {
				for ctx.Err() == nil {
					_, err := b.store.ExpireDue(context.WithoutCancel(ctx), 5)
					assert.NoError(t, err)
				}
			})
			checks := 0
			for ctx.Err() == nil {
				found, err := b.violations(t.Context())
				require.NoError(t, err)
				if !assert.Empty(t, found) {
					cancel()
				}
				checks++
			}
			wg.Wait()
			b.requireInvariants(t)
			b.requireNoDeadlocks(t)
			require.Positive(t, checks)
			require.Positive(t, b.count(t, `SELECT count(*) FROM outbox WHERE type = 'RESERVATION_CONFIRMED'`))
		})
	}
}

func TestExpireDueSharesTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 10, 20)))
	for i := range 60 {
		b.mustHold(t, fmt.Sprintf("u%d", i), fmt.Sprintf("A-%d-%d", i/10+1, i%10*2+1), fmt.Sprintf("A-%d-%d", i/10+1, i%10*2+2))
	}
	keep := b.mustHold(t, "keep", "A-9-1")
	_, err := b.pool.Exec(t.Context(), `UPDATE reservations SET expires_at = now() - interval '1 s' WHERE user_id <> 'keep'`)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `UPDATE seats SET held_until = (SELECT min(expires_at) FROM reservations) WHERE status = 'HELD' AND reservation_id <> $1`, keep.ID)
	require.NoError(t, err)

	var total int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range []*bundle{b, replica(t, b.pool), replica(t, b.pool)} {
		wg.Go(func() {
			for {
				n, err := r.store.ExpireDue(t.Context(), 20)
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				total += n
				done := total >= 60
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 60, total, "each once")
	require.EqualValues(t, 60, b.count(t, `SELECT count(*) FROM outbox WHERE type = 'RESERVATION_EXPIRED'`))
	require.Equal(t, reservation.Held, b.find(t, keep.ID).Status)
	b.requireInvariants(t)
}
