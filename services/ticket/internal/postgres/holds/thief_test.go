package holds_test

import (
	"errors"
	"fmt"
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
)

// smallHall puts an event of some places, which are for sale again within 20 min when they are given
// back, and of which a user may have two.
func smallHall(t *testing.T, seating event.Seating, places int) *storetest.Service {
	t.Helper()
	svc := storetest.New(t)
	section := storetest.Rows("A", 70, 1, places)
	if seating == event.General {
		section = storetest.Admissions("A", 70, int64(places))
	}
	spec := storetest.Spec("e", seating, section)
	spec.MaxPerUser, spec.ReturnWithin = 2, new(int32(1200))
	svc.Put(t, spec)
	return svc
}

func forEachSeating(t *testing.T, places int, test func(t *testing.T, svc *storetest.Service)) {
	t.Helper()
	for _, seating := range []event.Seating{event.Assigned, event.General} {
		t.Run(string(seating), func(t *testing.T) {
			t.Parallel()
			test(t, smallHall(t, seating, places))
		})
	}
}

// buyAndReturn buys places and gives them back at once.
func buyAndReturn(t *testing.T, svc *storetest.Service, user string, n int) {
	t.Helper()
	r, err := svc.HoldBest(t.Context(), user, n)
	require.NoError(t, err)
	p := storetest.Payment(r)
	svc.Confirm(t, r, p)
	svc.Refund(t, p, refund.User)
}

// cancel ends a hold of its user.
func cancel(t *testing.T, svc *storetest.Service, r *reservation.Reservation) {
	t.Helper()
	require.NoError(t, svc.Reservations.Cancel(t.Context(), r.UserID, "", r.ID))
}

// release lets time pass and puts what was given back on sale.
func release(t *testing.T, svc *storetest.Service, after time.Duration) {
	t.Helper()
	svc.Clock.Advance(after)
	require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
}

// Who buys and gives back again and again cannot take a hall off sale: what was given back counts for
// the limit until others can buy it, it does come back, and nobody gives back without an end.
func TestBuyingAndGivingBackTakesNothingOffSale(t *testing.T) {
	t.Parallel()
	forEachSeating(t, 8, func(t *testing.T, svc *storetest.Service) {
		t.Helper()
		for i := range 3 {
			for _, n := range []int{1, 1} {
				buyAndReturn(t, svc, "thief", n)
			}
			_, err := svc.HoldBest(t.Context(), "thief", 1)
			require.ErrorIs(t, err, event.ErrLimitExceeded, "both come back")
			release(t, svc, 20*time.Minute)
			require.Zero(t, svc.Count(t, `SELECT count(*) FROM returns`), i)
		}
		_, err := svc.HoldBest(t.Context(), "thief", 1)
		require.ErrorIs(t, err, event.ErrTooManyReturns, "three times the limit")
		_, err = svc.HoldBest(t.Context(), "honest", 2)
		require.NoError(t, err)
		svc.RequireInvariants(t)
	})
}

// Where the organiser keeps what is given back, it counts for its giver until the organiser sells it;
// the places of holds are for sale again all the same.
func TestGivingBackToTheHouse(t *testing.T) {
	t.Parallel()
	forEachSeating(t, 4, func(t *testing.T, svc *storetest.Service) {
		t.Helper()
		_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET returns_to = 'HOUSE'`)
		require.NoError(t, err)
		buyAndReturn(t, svc, "thief", 2)
		_, err = svc.HoldBest(t.Context(), "thief", 1)
		require.ErrorIs(t, err, event.ErrLimitExceeded)
		r, err := svc.HoldBest(t.Context(), "other", 2)
		require.NoError(t, err)
		cancel(t, svc, r)
		require.EqualValues(t, 2, svc.Count(t, `SELECT count(*) FROM returns WHERE unpaid`))
		require.EqualValues(t, 2, svc.Count(t, `SELECT sum(sold + house + returns) FROM sections`), "they count as held, not as sold")
		svc.RequireInvariants(t)
		release(t, svc, 10*time.Second)
		_, err = svc.HoldBest(t.Context(), "honest", 2)
		require.NoError(t, err)
		require.EqualValues(t, 2, svc.Count(t, `SELECT sum(house) FROM sections`))
		svc.RequireInvariants(t)
	})
}

// What waits to be free does not count as free: else every second hold could be handed over.
func TestManyEndedHoldsAreFreeLater(t *testing.T) {
	t.Parallel()
	forEachSeating(t, 3, func(t *testing.T, svc *storetest.Service) {
		t.Helper()
		buyAndReturn(t, svc, "returner", 1)
		first, err := svc.HoldBest(t.Context(), "thief", 1)
		require.NoError(t, err)
		second, err := svc.HoldBest(t.Context(), "thief", 1)
		require.NoError(t, err)
		cancel(t, svc, first)
		cancel(t, svc, second)
		require.EqualValues(t, 2, svc.Count(t, `SELECT count(*) FROM returns WHERE unpaid`))
		_, err = svc.HoldBest(t.Context(), "accomplice", 1)
		require.Error(t, err)
		svc.RequireInvariants(t)
	})
}

// Two accounts cannot hand places over to each other: where few are free, those of a hold that has
// ended are free at a time that nobody knows, within 10 s.
func TestEndedHoldsOfFewPlacesAreFreeLater(t *testing.T) {
	t.Parallel()
	forEachSeating(t, 2, func(t *testing.T, svc *storetest.Service) {
		t.Helper()
		for i, end := range []func(r *reservation.Reservation){
			func(r *reservation.Reservation) { cancel(t, svc, r) },
			func(*reservation.Reservation) { svc.Clock.Advance(storetest.HoldFor) },
			func(*reservation.Reservation) {
				svc.Clock.Advance(storetest.HoldFor)
				_, err := svc.Expiry.ExpireDue(t.Context(), 10)
				require.NoError(t, err)
			},
		} {
			var r *reservation.Reservation
			var err error
			testkit.Until(t, func() bool { // until the seat map is read again, the best seats are those that were refused
				r, err = svc.HoldBest(t.Context(), fmt.Sprint("thief", i), 2)
				return !errors.Is(err, reservation.ErrTryAgain)
			}, "the seats")
			require.NoError(t, err)
			end(r)
			_, err = svc.HoldBest(t.Context(), fmt.Sprint("accomplice", i), 1)
			require.Error(t, err, i)
			_, err = svc.Expiry.ExpireDue(t.Context(), 10)
			require.NoError(t, err)
			require.EqualValues(t, 2, svc.Count(t, `SELECT count(DISTINCT release_at) FROM returns`), "each at its own time")
			release(t, svc, time.Second-time.Microsecond)
			require.EqualValues(t, 2, svc.Count(t, `SELECT count(*) FROM returns`))
			svc.RequireInvariants(t)
			release(t, svc, 9*time.Second)
			require.Zero(t, svc.Count(t, `SELECT count(*) FROM returns`))
			svc.RequireInvariants(t)
		}
	})
}

// From the third unpaid hold of an event on a user has to wait, each time twice as long. Who changes
// their mind twice does not, nor does anybody whose card was declined three times.
func TestPausesBetweenUnpaidHolds(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 4, 20)))
	svc.Put(t, storetest.Spec("other", event.General, storetest.Admissions("A", 70, 9)))
	giveUp := func(user string) {
		t.Helper()
		r, err := svc.HoldBest(t.Context(), user, 1)
		require.NoError(t, err)
		cancel(t, svc, r)
	}
	giveUp("u")
	r, err := svc.HoldBest(t.Context(), "u", 1)
	require.NoError(t, err)
	svc.Clock.Set(r.Until)
	_, err = svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	giveUp("u")
	for _, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		_, err = svc.HoldBest(t.Context(), "u", 1)
		require.ErrorIs(t, err, event.ErrHoldPaused)
		require.InDelta(t, pause.Seconds(), errs.From(err).RetryAfter.Seconds(), 0.001)
		_, err = svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "other", UserID: "u", Section: "A", Quantity: 1})
		require.NoError(t, err, "it is of another event")
		svc.Clock.Advance(pause)
		giveUp("u")
	}
	svc.Clock.Advance(event.ForgottenAfter)
	giveUp("u")
	giveUp("u")
	r, err = svc.HoldBest(t.Context(), "u", 1)
	require.NoError(t, err)
	svc.Clock.Set(r.Until)
	_, err = svc.HoldBest(t.Context(), "u", 1)
	require.ErrorIs(t, err, event.ErrHoldPaused, "its end is not stored yet")
	svc.RequireInvariants(t)
}

// Who tries to pay meets no pause: neither if a card is declined three times, nor if the payment
// provider opens no page. But this has an end too.
func TestPausesForgiveFailedPayments(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]purchase.Failure{"declined": {Declined: true}, "unopened": {Unopened: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 4, 20)))
			hold := func() *reservation.Reservation {
				t.Helper()
				r, err := svc.HoldBest(t.Context(), "u", 1)
				require.NoError(t, err)
				return r
			}
			fail := func() {
				t.Helper()
				r, payment := hold(), uuid.New()
				_, err := svc.Reservations.BeginPayment(t.Context(), r.UserID, r.ID, payment, openPage)
				require.NoError(t, err)
				require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, payment, failure))
				cancel(t, svc, r)
			}
			for range event.Forgiven {
				fail()
			}
			cancel(t, svc, hold())
			cancel(t, svc, hold())
			cancel(t, svc, hold())
			_, err := svc.HoldBest(t.Context(), "u", 1)
			require.ErrorIs(t, err, event.ErrHoldPaused)
			svc.Clock.Advance(30 * time.Second)
			fail()
			_, err = svc.HoldBest(t.Context(), "u", 1)
			require.ErrorIs(t, err, event.ErrHoldPaused, "one too many is like any other")
			require.InDelta(t, time.Minute.Seconds(), errs.From(err).RetryAfter.Seconds(), 0.001)
		})
	}
}

// A hold that is forgiven does not begin the pause anew.
func TestForgivenHoldsDoNotPauseAgain(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 4, 20)))
	for range 3 {
		r, err := svc.HoldBest(t.Context(), "u", 1)
		require.NoError(t, err)
		cancel(t, svc, r)
	}
	svc.Clock.Advance(30 * time.Second)
	r, err := svc.HoldBest(t.Context(), "u", 1)
	require.NoError(t, err)
	p := svc.BeginPayment(t, r)
	require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{Declined: true}))
	cancel(t, svc, r)
	_, err = svc.HoldBest(t.Context(), "u", 1)
	require.NoError(t, err)
}

// openPage claims a hold for the provider's page.
var openPage = purchase.PayTime{Within: 10 * time.Minute, AtLeast: time.Minute, Opens: true}

// Payment pages count for a user's unpaid holds of an event together, since each gives a hold more
// time. Those at which a payment was declined do not. Who has opened all of them cannot hold places
// either, which could not be paid.
func TestPaymentPagesOfAUser(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 4, 20)))
	open := func(r *reservation.Reservation, declined bool) error {
		payment, why := uuid.New(), purchase.Failure{Declined: declined}
		_, err := svc.Reservations.BeginPayment(t.Context(), r.UserID, r.ID, payment, openPage)
		if err != nil {
			return err
		}
		return svc.Reservations.AbortPayment(t.Context(), r.ID, payment, why)
	}
	declined := svc.MustHoldSeats(t, "declined", "A-2-1")
	for range event.MaxPages + event.Forgiven {
		require.NoError(t, open(declined, true))
	}
	require.ErrorIs(t, open(declined, true), purchase.ErrNotPayable)
	first := svc.MustHoldSeats(t, "u", "A-1-1")
	require.NoError(t, open(first, false))
	require.NoError(t, open(first, false))
	cancel(t, svc, first)
	second, third := svc.MustHoldSeats(t, "u", "A-1-2"), svc.MustHoldSeats(t, "u", "A-1-3")
	require.NoError(t, open(second, false))
	require.ErrorIs(t, open(second, false), purchase.ErrNotPayable)
	require.ErrorIs(t, open(third, false), purchase.ErrNotPayable)
	_, err := svc.Reservations.BeginPayment(t.Context(), "u", third.ID, uuid.New(), purchase.PayTime{})
	require.NoError(t, err, "a charge without a page")
	cancel(t, svc, second)
	_, err = svc.HoldSeats(t.Context(), "u", "A-1-5")
	require.ErrorIs(t, err, event.ErrHoldPaused)
	require.InDelta(t, event.ForgottenAfter.Seconds(), errs.From(err).RetryAfter.Seconds(), 0.001)
	svc.Clock.Advance(event.ForgottenAfter + storetest.MaxExtension)
	_, err = svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.NoError(t, open(svc.MustHoldSeats(t, "u", "A-1-4"), false))
}
