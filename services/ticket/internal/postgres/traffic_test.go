package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
)

type holdFunc func(ctx context.Context, svc *storetest.Service, user string) (*reservation.Reservation, error)

// shopper is a user who holds places. The test then does with them, in random order, what buyers,
// operators and the payment service may do.
type shopper struct {
	*storetest.Service

	user string
	hold holdFunc
}

// visit holds places and then does up to three random steps with them. It returns the first error
// other than a refusal.
func (s shopper) visit(ctx context.Context) error {
	r, err := s.hold(ctx, s.Service, s.user)
	if err != nil {
		s.Clock.Advance(20 * time.Second) // so that other shoppers' holds expire
		return ignoreRefusal(err)
	}
	p := storetest.Payment(r)
	cancel := func() error { return s.Reservations.Cancel(ctx, s.user, "", r.ID) }
	begin := func() error {
		_, err := s.Reservations.BeginPayment(ctx, s.user, r.ID, p.ID, purchase.PayTime{})
		return err
	}
	abort := func() error {
		return s.Reservations.AbortPayment(ctx, r.ID, p.ID, purchase.Failure{Declined: rand.N(2) == 0})
	}
	pay := func() error {
		e := settlement.PaymentEvent{Type: purchase.Reservation, ReferenceID: r.ID, Payment: p}
		if rand.N(4) > 0 { // else the record may be somebody's who is not the payment service
			if err := s.MarkBegun(ctx, e); err != nil {
				return err
			}
		}
		if err := s.settle(ctx, e); !errors.Is(err, settlement.ErrNotBegun) {
			return err
		}
		return nil
	}
	giveBack := func() error { return s.giveBack(ctx, p, refund.User, rand.N(2) == 0) }
	operator := func() error { return s.giveBack(ctx, p, refund.Operator, false) }
	byHand := func() error { return s.giveBack(ctx, p, refund.ByHand, false) }
	wait := func() error { s.Clock.Advance(2 * time.Minute); return nil }
	changeHouse := func() error { return s.changeHouse(ctx) }
	steps := []func() error{cancel, begin, begin, abort, pay, pay, giveBack, operator, byHand, wait, changeHouse}
	for range rand.N(4) {
		if err := ignoreRefusal(steps[rand.N(len(steps))]()); err != nil {
			return err
		}
	}
	if rand.N(2) == 0 { // so that places become free again
		return ignoreRefusal(operator())
	}
	return nil
}

// changeHouse has the organiser keep some places, or puts those that it keeps on sale again.
func (s shopper) changeHouse(ctx context.Context) error {
	house, err := s.Events.House(ctx, "e")
	if err != nil {
		return err
	}
	var change event.HouseChange
	switch section := house.Sections[0]; {
	case !section.Seated:
		change.Standing = map[string]int64{"A": rand.Int64N(4)}
	case rand.N(2) == 0:
		change.Release = house.SeatIDs
	default:
		for n := range 2 {
			change.Take = append(change.Take, fmt.Sprintf("A-%d-%d", rand.N(2)+1, 2*rand.N(10)+n+1))
		}
	}
	_, err = s.Events.PutHouse(ctx, "e", change)
	return err
}

// giveBack begins a refund of all tickets of a payment, or of one ticket. If it is not refused, it
// is then made or, unless its cause is ByHand, sometimes aborted.
func (s shopper) giveBack(ctx context.Context, p purchase.Payment, cause refund.Cause, onlyOne bool) error {
	req := s.RefundRequest(p, cause)
	if onlyOne {
		err := s.Pool.QueryRow(ctx, `SELECT ARRAY(SELECT ticket_id FROM tickets WHERE payment_id = $1 LIMIT 1)`, p.ID).Scan(&req.TicketIDs)
		if err != nil {
			return err
		}
	}
	c, err := s.Refunds.Begin(ctx, req)
	if err != nil || c.Status != refund.Begun {
		return err
	}
	if cause != refund.ByHand && rand.N(4) == 0 {
		return s.Refunds.Abort(ctx, req.ID)
	}
	return s.settle(ctx, storetest.MadeRefund(c, p))
}

func (s shopper) settle(ctx context.Context, e settlement.PaymentEvent) error {
	e.Key = uuid.NewString()
	return s.Settlement.Settle(ctx, storetest.Group, []settlement.PaymentEvent{e})
}

// ignoreRefusal returns nil if err is a refusal (a conflict, or a pause), and otherwise err.
func ignoreRefusal(err error) error {
	if e := errs.From(err); e != nil && (e.Kind == errs.Conflict || e.Reason == event.ErrHoldPaused.Reason) {
		return nil
	}
	return err
}

// While shoppers use two replicas and a worker expires holds, every snapshot of the database
// satisfies every invariant.
func TestInvariantsUnderTraffic(t *testing.T) {
	t.Parallel()
	best := func(ctx context.Context, svc *storetest.Service, user string) (*reservation.Reservation, error) {
		return svc.HoldBest(ctx, user, rand.N(3)+1)
	}
	for name, c := range map[string]struct {
		spec event.Event
		hold holdFunc
	}{
		"named seats": {storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 2, 20)), func(ctx context.Context, svc *storetest.Service, user string) (*reservation.Reservation, error) {
			seat := rand.N(18) + 1
			row := rand.N(2) + 1
			return svc.HoldSeats(ctx, user, fmt.Sprintf("A-%d-%d", row, seat+2), fmt.Sprintf("A-%d-%d", row, seat))
		}},
		"best seats": {storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 2, 20)), best},
		"both": {
			storetest.Spec("e", event.Mixed, storetest.Admissions("A", 70, 20), storetest.Rows("B", 70, 1, 20)),
			func(ctx context.Context, svc *storetest.Service, user string) (*reservation.Reservation, error) {
				if rand.N(2) == 0 {
					return best(ctx, svc, user)
				}
				return svc.HoldSeats(ctx, user, fmt.Sprintf("B-1-%d", rand.N(20)+1))
			},
		},
		"general admission": {storetest.Spec("e", event.General, storetest.Admissions("A", 70, 40)), best},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			c.spec.SalesCloseAt, c.spec.StartsAt = storetest.Start.AddDate(1, 0, 0), storetest.Start.AddDate(1, 0, 1)
			c.spec.ReturnWithin = new(int32(300))
			svc.Put(t, c.spec)
			requireInvariantsDuringVisits(t, []*storetest.Service{svc, svc.Replica(t)}, c.hold)
			svc.RequireInvariants(t)
			svc.RequireNoDeadlocks(t)
		})
	}
}

// requireInvariantsDuringVisits checks the invariants repeatedly while a dozen shoppers use the
// replicas, until at least one reservation was confirmed and one expired.
func requireInvariantsDuringVisits(t *testing.T, replicas []*storetest.Service, hold holdFunc) {
	t.Helper()
	const shoppers = 12
	visits := 30
	if testing.Short() {
		visits = 8
	}
	ctx, stop := testkit.Context(t)
	defer stop()
	var bothSeen atomic.Bool
	var visited []error
	svc := replicas[0]
	var swept error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer stop()
		visited = storetest.Concurrently(shoppers, func(i int) (err error) {
			for n := 0; (n < visits || !bothSeen.Load()) && err == nil && ctx.Err() == nil; n++ {
				// There are only a dozen users, so that they reach the limit of places per user.
				s := shopper{Service: replicas[(i+n)%2], user: fmt.Sprintf("u%d", rand.N(12)), hold: hold}
				err = s.visit(t.Context())
			}
			return err
		})
	})
	wg.Go(func() {
		for swept == nil && ctx.Err() == nil {
			if _, swept = svc.Expiry.ExpireDue(t.Context(), 5); swept == nil {
				swept = svc.EventStore.ReleaseReturns(t.Context())
			}
		}
	})
	found, err := svc.Violations(t.Context())
	for found == "" && err == nil && ctx.Err() == nil {
		found, err = svc.Violations(t.Context())
		bothSeen.Store(svc.Count(t, `SELECT count(DISTINCT type) FROM outbox WHERE type IN ('RESERVATION_CONFIRMED', 'RESERVATION_EXPIRED')`) == 2)
	}
	stop()
	wg.Wait()
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, swept)
	for _, err := range visited {
		require.NoError(t, err)
	}
	require.True(t, bothSeen.Load(), "a reservation was confirmed, and one expired")
}
