package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/waittest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

type holdFunc func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error)

// shopper does to one sale whatever buyers, payment, its providers and the sweeper may do, in any
// order.
type shopper struct {
	*bundle
	user string
	hold holdFunc
}

// run holds places once and returns the first error that is no refusal.
func (s shopper) run(ctx context.Context) error {
	r, err := s.hold(ctx, s.bundle, s.user)
	if err != nil {
		s.clock.Advance(20 * time.Second) // towards the end of the holds that are in the way
		return unexpected(err)
	}
	p := payment(r)
	cancel := func() error { return s.reservations.Cancel(ctx, s.user, "", r.ID) }
	begin := func() error { _, err := s.reservations.BeginPayment(ctx, s.user, r.ID, p.ID); return err }
	abort := func() error { return s.reservations.AbortPayment(ctx, r.ID, p.ID) }
	pay := func() error { return s.settled(ctx, reservation.PaymentEvent{ReservationID: r.ID, Payment: p}) }
	refund := func() error {
		return s.settled(ctx, reservation.PaymentEvent{ReservationID: r.ID, Payment: p, Refunded: true, Cause: reservation.CauseUser})
	}
	wait := func() error { s.clock.Advance(2 * time.Minute); return nil }
	steps := []func() error{cancel, begin, begin, abort, pay, refund, wait}
	for range rand.N(4) {
		if err := unexpected(steps[rand.N(len(steps))]()); err != nil {
			return err
		}
	}
	if rand.N(2) == 0 { // so that the hall is not sold out for good
		return unexpected(refund())
	}
	return nil
}

func (s shopper) settled(ctx context.Context, e reservation.PaymentEvent) error {
	e.Key = uuid.NewString()
	return s.store.Settle(ctx, group, []reservation.PaymentEvent{e})
}

// unexpected lets refusals pass, and nothing else.
func unexpected(err error) error {
	if e := errs.From(err); e != nil && e.Kind == errs.Conflict {
		return nil
	}
	return err
}

// While all of that goes on, on two replicas, every snapshot of the database obeys every invariant.
func TestInvariantsUnderTraffic(t *testing.T) {
	t.Parallel()
	best := func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error) {
		return b.best(ctx, user, rand.N(3)+1)
	}
	for name, c := range map[string]struct {
		spec event.Spec
		hold holdFunc
	}{
		"named seats": {spec("e", event.Assigned, rows("A", 70, 2, 20)), func(ctx context.Context, b *bundle, user string) (*reservation.Reservation, error) {
			seat := rand.N(18) + 1
			row := rand.N(2) + 1
			return b.hold(ctx, user, fmt.Sprintf("A-%d-%d", row, seat+2), fmt.Sprintf("A-%d-%d", row, seat))
		}},
		"best seats":        {spec("e", event.Assigned, rows("A", 70, 2, 20)), best},
		"general admission": {spec("e", event.General, admissions("A", 70, 40)), best},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			c.spec.SalesCloseAt, c.spec.StartsAt = opening.AddDate(1, 0, 0), opening.AddDate(1, 0, 1)
			b.put(t, c.spec)
			b.requireInvariantsDuring(t, []*bundle{b, replica(t, b)}, c.hold)
			b.requireInvariants(t)
			b.requireNoDeadlocks(t)
			require.Positive(t, b.count(t, `SELECT count(*) FROM outbox WHERE type = 'RESERVATION_CONFIRMED'`))
			if !testing.Short() { // fewer visits may end without one
				require.Positive(t, b.count(t, `SELECT count(*) FROM outbox WHERE type = 'RESERVATION_EXPIRED'`))
			}
		})
	}
}

// requireInvariantsDuring checks the invariants again and again while a dozen shoppers come and go.
func (b *bundle) requireInvariantsDuring(t *testing.T, replicas []*bundle, hold holdFunc) {
	t.Helper()
	const shoppers = 12
	visits := 30
	if testing.Short() {
		visits = 8
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var visited []error
	var swept error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer stop()
		visited = together(shoppers, func(i int) (err error) {
			for n := 0; n < visits && err == nil && ctx.Err() == nil; n++ {
				// A dozen users, so that the limit matters.
				s := shopper{bundle: replicas[(i+n)%2], user: fmt.Sprintf("u%d", rand.N(12)), hold: hold}
				err = s.run(t.Context())
			}
			return err
		})
	})
	wg.Go(func() {
		for swept == nil && ctx.Err() == nil {
			_, swept = b.store.ExpireDue(t.Context(), 5)
		}
	})
	found, err := b.violations(t.Context())
	for found == "" && err == nil && ctx.Err() == nil {
		found, err = b.violations(t.Context())
	}
	stop()
	wg.Wait()
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, swept)
	for _, err := range visited {
		require.NoError(t, err)
	}
}

func TestExpireDueSharesTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 10, 20)))
	for i := range 60 {
		b.mustHold(t, fmt.Sprintf("u%d", i), fmt.Sprintf("A-%d-%d", i/10+1, i%10*2+1), fmt.Sprintf("A-%d-%d", i/10+1, i%10*2+2))
	}
	b.clock.Advance(time.Minute)
	keep := b.mustHold(t, "keep", "A-9-1")
	b.clock.Advance(holdFor - time.Minute)

	ctx, cancel := waittest.Context(t)
	defer cancel()
	replicas := []*bundle{b, replica(t, b), replica(t, b)}
	var total atomic.Int64
	for _, err := range together(len(replicas), func(i int) error {
		for total.Load() < 60 {
			n, err := replicas[i].store.ExpireDue(ctx, 20)
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
	require.EqualValues(t, 60, b.count(t, `SELECT count(*) FROM outbox WHERE type = 'RESERVATION_EXPIRED'`))
	require.Equal(t, reservation.Held, b.find(t, keep.ID).Status)
	b.requireInvariants(t)
}
