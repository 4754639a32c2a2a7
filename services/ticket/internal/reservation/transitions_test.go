package reservation_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

var noon = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)

// extension is the longest time by which payments may extend a hold.
const extension = 30 * time.Minute

func held() *reservation.Reservation {
	return reservation.NewHeld(reservation.Reservation{
		ID: reservation.NewID(), EventID: "e", UserID: "u", SlotID: "s", Quantity: 1, Amount: 70, Currency: "KRW",
		Seats: []reservation.Seat{{ID: "A-1-1", Section: "A", Row: "1", Number: 1, Price: 70}},
	}, 5*time.Minute, noon)
}

func paymentFor(r *reservation.Reservation) purchase.Payment {
	return purchase.Payment{ID: uuid.New(), Amount: r.Amount, Currency: r.Currency}
}

func begin(r *reservation.Reservation, payment uuid.UUID, now time.Time, maxExtension time.Duration) error {
	return claim(r, payment, now, maxExtension, purchase.PayTime{})
}

func claim(r *reservation.Reservation, payment uuid.UUID, now time.Time, maxExtension time.Duration, t purchase.PayTime) error {
	return purchase.Begin(&reservation.Purchase{Reservation: r}, r.UserID, payment, t, now, maxExtension)
}

func extend(r *reservation.Reservation, payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	purchase.Extend(&reservation.Purchase{Reservation: r}, payment, now, maxExtension)
}

func abort(r *reservation.Reservation, payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	purchase.Abort(&reservation.Purchase{Reservation: r}, payment, purchase.Failure{}, now, maxExtension)
}

func settle(r *reservation.Reservation, p purchase.Payment, now time.Time) (rejected string) {
	return purchase.Settle(&reservation.Purchase{Reservation: r}, p, now, extension)
}

func TestHoldExpiresAtItsEnd(t *testing.T) {
	t.Parallel()
	end := noon.Add(5 * time.Minute)
	r := held()
	require.False(t, r.Due(end.Add(-time.Microsecond)))
	require.True(t, r.Due(end))
	require.Equal(t, reservation.Held, r.At(end.Add(-time.Microsecond)).Status)
	seen := r.At(end)
	require.Equal(t, reservation.Expired, seen.Status)
	require.Equal(t, reservation.Held, r.Status, "seeing changes nothing")
	require.False(t, r.Expire(end.Add(-time.Microsecond)))
	require.True(t, r.Expire(end))
	require.False(t, r.Expire(end), "once")
	require.ErrorIs(t, begin(r, uuid.New(), noon, extension), purchase.ErrHoldExpired)
}

func TestBeginPaymentExtendsTheHoldOnce(t *testing.T) {
	t.Parallel()
	r, p := held(), uuid.New()
	at := noon.Add(4 * time.Minute)
	require.NoError(t, begin(r, p, at, extension))
	require.Equal(t, at.Add(10*time.Minute), r.Until)
	require.NoError(t, begin(r, p, at.Add(time.Minute), extension))
	require.Equal(t, at.Add(10*time.Minute), r.Until)
	require.ErrorIs(t, begin(r, uuid.New(), at, extension), purchase.ErrPaymentInProgress)
	require.ErrorIs(t, begin(r, p, at.Add(10*time.Minute), extension), purchase.ErrHoldExpired)
	require.ErrorIs(t, r.Cancel(at), reservation.ErrNotHeld)
	abort(r, p, at.Add(time.Minute), extension)
	require.Equal(t, at.Add(4*time.Minute), r.Until, "three minutes from the decline")
	require.EqualValues(t, 3, r.Version)
}

// The places of a long hold stay held until its end, whatever happens to the payment.
func TestBeginPaymentDoesNotShortenTheHold(t *testing.T) {
	t.Parallel()
	r := reservation.NewHeld(reservation.Reservation{ID: reservation.NewID(), EventID: "e", UserID: "u", Quantity: 1}, time.Hour, noon)
	end, p := noon.Add(time.Hour), uuid.New()
	require.NoError(t, begin(r, p, noon.Add(time.Minute), extension))
	require.Equal(t, end, r.Until)
	require.False(t, r.Due(end.Add(-time.Microsecond)))
	abort(r, p, noon.Add(2*time.Minute), extension)
	require.Equal(t, end, r.Until)
}

// A user whose payments are all declined, and who begins the next one at once or at the last
// moment, does not keep the seats longer than the extension allows.
func TestExtensionIsBounded(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(r *reservation.Reservation, now time.Time) time.Time{
		"at once":            func(_ *reservation.Reservation, now time.Time) time.Time { return now },
		"at the last moment": func(r *reservation.Reservation, _ time.Time) time.Time { return r.Until.Add(-time.Microsecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, now := held(), noon
			last := r.OriginalEnd.Add(extension)
			for r.Status == reservation.Held {
				now = next(r, now)
				p := uuid.New()
				require.NoError(t, begin(r, p, now, extension), "what is held can be paid")
				require.Equal(t, now.Add(purchase.PayWithin), r.Until, "a payment that begins has its whole time")
				require.False(t, r.Until.After(last))
				now = now.Add(10 * time.Second)
				abort(r, p, now, extension)
			}
			require.WithinDuration(t, last.Add(-purchase.PayWithin), now, 10*time.Second, "the time is there to be used")
			require.Equal(t, reservation.Expired, r.Status)
			require.ErrorIs(t, begin(r, uuid.New(), now, extension), purchase.ErrHoldExpired)
			events := r.TakeEvents()
			require.Equal(t, reservation.EventExpired, events[len(events)-1].Type)
		})
	}
}

func TestEventsHaveTheReservationAsItWas(t *testing.T) {
	t.Parallel()
	r := held()
	require.NoError(t, begin(r, uuid.New(), noon, extension))
	p := paymentFor(r)
	settle(r, p, noon.Add(time.Minute))
	r.GiveBack([]reservation.ReturnedPlace{{N: 1}}, noon.Add(2*time.Minute))
	type seen struct {
		Type    reservation.EventType
		Status  reservation.Status
		Version int64
		Payment uuid.UUID
		Reason  string
		At      time.Duration
	}
	var got []seen
	for _, e := range r.TakeEvents() {
		got = append(got, seen{e.Type, e.Reservation.Status, e.Reservation.Version, e.PaymentID, e.Reason, e.At.Sub(noon)})
	}
	require.Equal(t, []seen{
		{reservation.EventCreated, reservation.Held, 1, uuid.Nil, "", 0},
		{reservation.EventConfirmed, reservation.Confirmed, 3, p.ID, "", time.Minute},
		{reservation.EventCancelled, reservation.Refunded, 4, uuid.Nil, "REFUNDED", 2 * time.Minute},
	}, got)
	require.Empty(t, r.TakeEvents())
}

// A reservation that ends unpaid has no PaymentID any more. Otherwise a late confirmation would
// count as applied before, and lead to neither a ticket nor a refund.
func TestUnpaidEndsForgetThePayment(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *reservation.Reservation, payment uuid.UUID){
		"expired":             func(r *reservation.Reservation, _ uuid.UUID) { r.Expire(noon.Add(time.Hour)) },
		"cancelled":           func(r *reservation.Reservation, p uuid.UUID) { abort(r, p, noon, extension); _ = r.Cancel(noon) },
		"event ended":         func(r *reservation.Reservation, _ uuid.UUID) { r.CancelWithEvent(noon) },
		"expired, then ended": func(r *reservation.Reservation, _ uuid.UUID) { r.CancelWithEvent(noon.Add(time.Hour)) },
	} {
		r := held()
		p := paymentFor(r)
		require.NoError(t, begin(r, p.ID, noon, extension))
		end(r, p.ID)
		require.False(t, r.Status.Live(), name)
		require.Equal(t, uuid.Nil, r.PaymentID, name)
		require.NotEmpty(t, settle(r, p, noon.Add(time.Hour)), "%s: the late payment goes back", name)
		require.Equal(t, reservation.Rejected, r.Status, name)
	}
	r := held()
	settle(r, paymentFor(r), noon)
	r.CancelWithEvent(noon)
	require.Equal(t, reservation.Confirmed, r.Status, "what is paid is refunded ticket by ticket")
}

// A reservation ends when its last place is given back. Each Kafka event has the freed places.
func TestGiveBackOneByOne(t *testing.T) {
	t.Parallel()
	r := reservation.NewHeld(reservation.Reservation{
		ID: reservation.NewID(), EventID: "e", UserID: "u", Quantity: 3, Amount: 210, Fee: 30, Currency: "KRW",
		Seats: []reservation.Seat{{ID: "A-1-1"}, {ID: "A-1-2"}, {ID: "A-1-3"}},
	}, time.Minute, noon)
	settle(r, paymentFor(r), noon)
	r.TakeEvents()
	r.GiveBack(nil, noon)
	require.Empty(t, r.TakeEvents())
	r.GiveBack([]reservation.ReturnedPlace{{N: 2}}, noon)
	r.GiveBack([]reservation.ReturnedPlace{{N: 3, Fee: 10, House: true}, {N: 1, Fee: 5}}, noon)
	require.Equal(t, []reservation.ReturnedPlace{{N: 2}, {N: 3, Fee: 10, House: true}, {N: 1, Fee: 5}}, r.ReturnedPlaces())
	require.Equal(t, reservation.Refunded, r.Status)
	require.Equal(t, 3, r.Released)
	require.Len(t, r.Seats, 3)
	events := r.TakeEvents()
	require.Len(t, events, 2)
	for i, want := range []struct {
		status reservation.Status
		seats  []string
		fee    int64
	}{{reservation.Confirmed, []string{"A-1-2"}, 0}, {reservation.Refunded, []string{"A-1-3", "A-1-1"}, 15}} {
		got := events[i].Reservation
		require.Equal(t, want.status, got.Status)
		require.Equal(t, want.seats, got.SeatIDs())
		require.Equal(t, len(want.seats), got.Quantity)
		require.Equal(t, want.fee, got.Fee)
	}
	require.Zero(t, r.AsCreated().Released)
}

func TestAsCreated(t *testing.T) {
	t.Parallel()
	r := held()
	first := *r.AsCreated()
	require.NoError(t, begin(r, uuid.New(), noon, extension))
	settle(r, paymentFor(r), noon)
	require.Equal(t, first, *r.AsCreated())
}

// Whatever happened before a payment, it either confirms the reservation or is refunded.
func TestEveryPaymentEndsInAConfirmationOrARefund(t *testing.T) {
	t.Parallel()
	steps := []func(r *reservation.Reservation, now time.Time){
		func(r *reservation.Reservation, now time.Time) { _ = r.Cancel(now) },
		func(r *reservation.Reservation, now time.Time) { _ = begin(r, uuid.New(), now, extension) },
		func(r *reservation.Reservation, now time.Time) { abort(r, r.PaymentID, now, extension) },
		func(r *reservation.Reservation, now time.Time) { r.Expire(now) },
		func(r *reservation.Reservation, now time.Time) { settle(r, paymentFor(r), now) },
		func(r *reservation.Reservation, now time.Time) {
			if r.Status == reservation.Confirmed {
				r.GiveBack([]reservation.ReturnedPlace{{N: 1}}, now)
			}
		},
		func(*reservation.Reservation, time.Time) {}, // time passes
	}
	for path := range 7 * 7 * 7 * 7 {
		r, now := held(), noon
		for p := path; p > 0; p /= len(steps) {
			now = now.Add(2 * time.Minute)
			steps[p%len(steps)](r, now)
		}
		r.TakeEvents()
		before, p := *r, paymentFor(r)
		settle(r, p, now)
		var confirmed, refused int
		for _, e := range r.TakeEvents() {
			if e.PaymentID == p.ID && e.Type == reservation.EventConfirmed {
				confirmed++
			}
			if e.PaymentID == p.ID && e.Type == reservation.EventPaymentRejected {
				refused++
			}
		}
		require.Equal(t, 1, confirmed+refused, "from %s", before.Status)
		require.Equal(t, confirmed == 1, before.Status.Unpaid() && !before.Due(now), "from %s", before.Status)
		require.Equal(t, confirmed == 1, r.Status == reservation.Confirmed && r.PaymentID == p.ID)
		again := *r
		if r.PaymentID == p.ID {
			settle(r, p, now)
			require.Equal(t, again, *r, "settled once")
		}
	}
}

func TestAllotDecidesInOrder(t *testing.T) {
	t.Parallel()
	g := reservation.GeneralSale{
		LockedSale: reservation.LockedSale{
			Sale: event.Sale{State: event.Open, OpenAt: noon.Add(-1), CloseAt: noon.Add(time.Hour), MaxPerUser: 4}, Now: noon,
			Records: map[string]event.Record{"old": {Used: 3}},
		},
		Free: map[string]int64{"A": 5, "B": 1}, Prices: map[string]int64{"A": 70, "B": 50},
	}
	for i, c := range []struct {
		user, section string
		n             int
		want          error
	}{
		{"u", "A", 3, nil},
		{"u", "A", 2, reservation.ErrLimitExceeded},
		{"old", "A", 2, reservation.ErrLimitExceeded},
		{"v", "A", 3, reservation.ErrSoldOut},
		{"v", "C", 1, event.ErrSectionNotFound},
		{"v", "A", 2, nil}, // the refused requests took no places
		{"u", "B", 1, nil},
		{"w", "B", 1, reservation.ErrSoldOut},
	} {
		r, err := g.Allot(reservation.BestRequest{UserID: c.user, Section: c.section, Quantity: c.n})
		if c.want == nil {
			require.NoError(t, err, i)
			require.Equal(t, g.Prices[c.section]*int64(c.n), r.Amount)
		} else {
			require.ErrorIs(t, err, c.want, i)
		}
	}
	g.Now = noon.Add(time.Hour)
	_, err := g.Allot(reservation.BestRequest{UserID: "x", Section: "A", Quantity: 1})
	require.ErrorIs(t, err, event.ErrSaleNotOpen)
}

// A payment page ends early enough for a charge after it, and a hold can have three pages.
func TestPagesOfAHold(t *testing.T) {
	t.Parallel()
	page := purchase.PayTime{Within: 12 * time.Minute, AtLeast: 3 * time.Minute, Opens: true}
	charge := purchase.PayTime{Within: 10 * time.Minute, AtLeast: 2 * time.Minute}
	r := held()
	now := noon
	for n := range 3 {
		p := uuid.New()
		require.NoError(t, claim(r, p, now, time.Hour, page))
		require.Equal(t, now.Add(12*time.Minute), r.Until)
		version := r.Version
		require.NoError(t, claim(r, p, now.Add(time.Minute), time.Hour, page))
		require.Equal(t, version, r.Version, "a repetition changes nothing")
		require.ErrorIs(t, claim(r, uuid.New(), now, time.Hour, page), purchase.ErrPaymentInProgress)
		require.NoError(t, claim(r, p, now.Add(11*time.Minute), time.Hour, charge))
		require.Equal(t, now.Add(21*time.Minute), r.Until, "a charge has its time")
		require.Equal(t, n+1, r.Opens)
		now = now.Add(12 * time.Minute)
		abort(r, p, now, time.Hour)
		require.Equal(t, now.Add(purchase.RetryWithin), r.Until)
	}
	require.ErrorIs(t, claim(r, uuid.New(), now, time.Hour, page), purchase.ErrNotPayable)
	require.NoError(t, claim(r, uuid.New(), now, time.Hour, charge), "a charge without a page")
}

// HOLD_MAX_EXTENSION may leave a payment less time than Within, but never less than AtLeast.
func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	page := purchase.PayTime{Within: 12 * time.Minute, AtLeast: 3 * time.Minute, Opens: true}
	charge := purchase.PayTime{Within: 10 * time.Minute, AtLeast: 2 * time.Minute}
	for _, c := range []struct {
		extension time.Duration
		t         purchase.PayTime
		want      time.Duration // 0: refused
	}{
		{30 * time.Minute, page, 12 * time.Minute},
		{10 * time.Minute, page, 6*time.Minute + time.Second}, // less 4 min for the charge
		{7 * time.Minute, page, 3*time.Minute + time.Second},
		{6 * time.Minute, page, 0},
		{6 * time.Minute, charge, 6*time.Minute + time.Second},
		{time.Minute, charge, 0},
	} {
		r := held()
		now := r.OriginalEnd.Add(-time.Second)
		err := claim(r, uuid.New(), now, c.extension, c.t)
		if c.want == 0 {
			require.ErrorIs(t, err, purchase.ErrHoldExpired, c)
			continue
		}
		require.NoError(t, err, c)
		require.Equal(t, now.Add(c.want), r.Until, c)
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	r, p := held(), uuid.New()
	require.NoError(t, claim(r, p, noon, time.Hour, purchase.PayTime{Within: time.Minute, AtLeast: time.Minute}))
	end, version := r.Until, r.Version
	extend(r, uuid.New(), end.Add(-time.Minute), time.Hour)
	extend(r, p, end.Add(-3*time.Minute), time.Hour)
	extend(r, p, end, time.Hour)
	require.Equal(t, version, r.Version, "another payment, nothing to add, too late")
	extend(r, p, end.Add(-time.Minute), time.Hour)
	require.Equal(t, end.Add(2*time.Minute), r.Until)
	extend(r, p, end, time.Minute)
	require.Equal(t, end.Add(2*time.Minute), r.Until, "not beyond HOLD_MAX_EXTENSION")
}

// A user can cancel a hold while a payment's page is open, but not once it may have been charged.
func TestGivingUpAnOpenPayment(t *testing.T) {
	t.Parallel()
	page := purchase.PayTime{Within: 12 * time.Minute, AtLeast: 3 * time.Minute, Opens: true}
	charge := purchase.PayTime{Within: 10 * time.Minute, AtLeast: 2 * time.Minute}
	r, p := held(), uuid.New()
	require.NoError(t, claim(r, p, noon, time.Hour, page))
	require.NoError(t, r.Cancel(noon))
	require.NoError(t, r.Cancel(noon), "repeated")
	require.Equal(t, reservation.Cancelled, r.Status)
	require.Equal(t, uuid.Nil, r.PaymentID)
	events := r.TakeEvents()
	require.Equal(t, p, events[len(events)-1].PaymentID, "payment ends it")
	require.ErrorIs(t, claim(r, p, noon, time.Hour, charge), purchase.ErrNotPayable)
	abort(r, p, noon, time.Hour)
	require.Equal(t, reservation.Cancelled, r.Status)

	// A hold that is longer than the charge needs: its end does not move.
	r = held()
	long := purchase.PayTime{Within: time.Second, AtLeast: time.Second}
	require.NoError(t, claim(r, p, noon, time.Hour, page))
	require.NoError(t, claim(r, p, noon, time.Hour, long))
	require.ErrorIs(t, r.Cancel(noon), reservation.ErrNotHeld)
	require.NoError(t, claim(r, p, noon, time.Hour, page), "a late repetition of the opening")
	require.ErrorIs(t, r.Cancel(noon), reservation.ErrNotHeld)
	abort(r, p, noon, time.Hour)
	require.NoError(t, r.Cancel(noon))
}
