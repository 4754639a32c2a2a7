package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

func TestPutEventCreatesWhatIsDescribed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.Assigned, rows("A", 70, 2, 3), rows("B", 50, 1, 2))
	s.HoldSeconds = ptr(int32(90))
	snap, err := b.events.Put(t.Context(), s)
	require.NoError(t, err)

	want, err := s.Event()
	require.NoError(t, err)
	want.Version = 1
	require.Equal(t, want, snap.Event)
	require.Equal(t, []int64{6, 2}, snap.Free)
	require.Equal(t, event.StatusOnSale, snap.Status())
	seats := map[string]int64{}
	for i := range 8 {
		seats[snap.Event.SeatsAt([]int{i})[0]] = int64(i)
	}
	require.Equal(t, map[string]int64{
		"A-1-1": 0, "A-1-2": 1, "A-1-3": 2, "A-2-1": 3, "A-2-2": 4, "A-2-3": 5, "B-1-1": 6, "B-1-2": 7,
	}, seats)
	for id, idx := range seats {
		require.Equal(t, idx, b.count(t, `SELECT idx FROM seats WHERE seat_id = $1`, id))
	}
	_, err = b.store.FindEvent(t.Context(), "other")
	require.ErrorIs(t, err, event.ErrNotFound)
}

func TestPutEventAgainIsNoChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, s := range []event.Spec{
		spec("assigned", event.Assigned, rows("A", 70, 2, 3), rows("B", 50, 1, 2)),
		spec("general", event.General, admissions("A", 70, 3)),
	} {
		s.StartsAt = s.StartsAt.Truncate(time.Microsecond).Add(123 * time.Nanosecond)
		s.Threshold, s.SlotSeconds, s.HoldSeconds = ptr(int64(50)), ptr(int64(60)), ptr(int32(90))
		b.put(t, s)
		b.put(t, s)
		s.Threshold, s.SlotSeconds, s.HoldSeconds = nil, nil, nil
		b.put(t, s)
		require.EqualValues(t, 1, b.count(t, `SELECT version FROM events WHERE event_id = $1`, s.ID))
	}
}

func TestPutEventConcurrently(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.Assigned, rows("A", 70, 5, 10))
	for _, err := range together(8, func(int) error { _, err := b.events.Put(t.Context(), s); return err }) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 50, b.count(t, `SELECT count(*) FROM seats`))
	b.requireInvariants(t)
}

func TestPutEventBeforeTheSale(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.Assigned, rows("A", 70, 5, 10))
	s.SalesOpenAt = opening.Add(time.Hour)
	b.put(t, s)
	s.Sections = []event.SectionSpec{rows("B", 10, 1, 4), rows("A", 20, 2, 2)}
	b.put(t, s)
	require.EqualValues(t, 8, b.count(t, `SELECT count(*) FROM seats`))
	s.Seating, s.Sections, s.Currency = event.General, []event.SectionSpec{admissions("G", 10, 7)}, "USD"
	snap, err := b.events.Put(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []int64{7}, snap.Free)
	require.Zero(t, b.count(t, `SELECT count(*) FROM seats`))
	require.Equal(t, event.StatusScheduled, snap.Status())
}

func TestPutEventNeverTouchesWhatIsHeldOrSold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.Assigned, rows("A", 70, 1, 10))
	b.put(t, s)
	r := b.mustHold(t, "u", "A-1-1")

	for name, change := range map[string]func(*event.Spec){
		"another layout":   func(s *event.Spec) { s.Sections = []event.SectionSpec{rows("A", 70, 1, 9)} },
		"one more section": func(s *event.Spec) { s.Sections = append(s.Sections, rows("B", 70, 1, 9)) },
		"other seating": func(s *event.Spec) {
			s.Seating, s.Sections = event.General, []event.SectionSpec{admissions("A", 70, 10)}
		},
		"another currency": func(s *event.Spec) { s.Currency = "USD" },
	} {
		changed := s
		change(&changed)
		_, err := b.events.Put(t.Context(), changed)
		require.ErrorIs(t, err, event.ErrLocked, name)
		// Not even when the sale is put off again.
		changed.SalesOpenAt = opening.Add(time.Hour)
		_, err = b.events.Put(t.Context(), changed)
		require.ErrorIs(t, err, event.ErrLocked, name)
	}
	s.Title, s.MaxPerUser, s.Sections = "New title", 1, []event.SectionSpec{rows("A", 100, 1, 10)}
	b.put(t, s)
	require.EqualValues(t, 70, b.find(t, r.ID).Amount, "what is held keeps its price")
	require.EqualValues(t, 100, b.mustHold(t, "v", "A-1-2").Amount)
	b.requireInvariants(t)
}

func TestPutEventCapacity(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10), admissions("B", 70, 10))
	b.put(t, s)
	_, err := b.best(t.Context(), "u", 4)
	require.NoError(t, err)

	s.Sections[0].Capacity = ptr(int64(3))
	_, err = b.events.Put(t.Context(), s)
	require.ErrorIs(t, err, event.ErrLocked)
	s.Sections[0].Capacity = ptr(int64(4))
	snap, err := b.events.Put(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 10}, snap.Free)
	s.Sections[0].Capacity = ptr(int64(20))
	snap, err = b.events.Put(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []int64{16, 10}, snap.Free)
	b.requireInvariants(t)
}

func TestCreateEventOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("", event.General, admissions("A", 70, 10))
	k, err := idempotency.New("op", "CreateEvent", "k", "body")
	require.NoError(t, err)
	first, err := b.events.Create(t.Context(), s, k)
	require.NoError(t, err)
	again, err := b.events.Create(t.Context(), s, k)
	require.NoError(t, err)
	require.Equal(t, first.Event, again.Event)
	other, err := b.events.Create(t.Context(), s, nil)
	require.NoError(t, err)
	require.NotEqual(t, first.Event.ID, other.Event.ID)
	require.EqualValues(t, 2, b.count(t, `SELECT count(*) FROM events`))
}

func TestSnapshotShowsExpiredHoldsAsFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 9), rows("B", 70, 1, 3)))
	empty, err := b.store.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	b.mustHold(t, "u", "A-1-9", "B-1-1")
	held, err := b.store.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []byte{0b11111111, 0b00110000}, held.Bitmap)
	require.Equal(t, []int64{8, 2}, held.Free)
	require.NotEqual(t, empty.ETag, held.ETag)
	b.clock.Advance(holdFor)
	lapsed, err := b.store.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, empty.Bitmap, lapsed.Bitmap)
	require.Equal(t, empty.ETag, lapsed.ETag)
}

func TestListEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		s := spec(fmt.Sprintf("e%d", i), event.General, admissions("A", 70, 10))
		if i%2 == 0 {
			s = spec(fmt.Sprintf("e%d", i), event.Assigned, rows("A", 70, 1, 9), rows("B", 70, 1, 3))
		}
		s.StartsAt = opening.AddDate(0, 1, i/2) // two of a day
		b.put(t, s)
	}
	var ids []string
	var after event.Cursor
	for range 3 {
		page, next, err := b.events.List(t.Context(), 2, after)
		require.NoError(t, err)
		for _, s := range page {
			ids = append(ids, s.Event.ID)
			if s.Event.Seating == event.Assigned {
				require.Equal(t, []int64{9, 3}, s.Free)
			} else {
				require.Equal(t, []int64{10}, s.Free)
			}
		}
		if next == nil {
			break
		}
		after = *next
	}
	require.Equal(t, []string{"e4", "e3", "e2", "e1", "e0"}, ids)

	_, err := b.holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: "e4", UserID: "u", SeatIDs: []string{"B-1-2"}})
	require.NoError(t, err)
	list, _, err := replica(t, b).events.List(t.Context(), 1, event.Cursor{})
	require.NoError(t, err)
	require.Equal(t, []int64{9, 2}, list[0].Free)
}

func TestLineSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.events.LineSettings(t.Context(), "promotion")
	require.ErrorIs(t, err, event.ErrNotFound, "an id that nobody ever put anything for")
	line, err := b.events.ChangeLine(t.Context(), "promotion", event.LineChange{})
	require.NoError(t, err, "this is how it becomes known")
	require.Equal(t, event.LineSettings{EventID: "promotion", BlockedUsers: []string{}, NeverOpened: true}, line)

	for _, c := range []event.LineChange{
		{Threshold: ptr(int64(0)), BlockUser: "x"}, {Paused: ptr(true), BlockUser: "y"}, {BlockUser: "x"}, {Paused: ptr(false)}, {},
	} {
		line, err = b.events.ChangeLine(t.Context(), "promotion", c)
		require.NoError(t, err)
	}
	want := event.LineSettings{EventID: "promotion", Threshold: ptr(int64(0)), BlockedUsers: []string{"x", "y"}, NeverOpened: true}
	require.Equal(t, want, line)

	s := spec("e", event.General, admissions("A", 70, 10))
	s.SlotSeconds = ptr(int64(60))
	b.put(t, s)
	line, err = b.events.LineSettings(t.Context(), "e")
	require.NoError(t, err)
	require.EqualValues(t, 60, *line.SlotSeconds)
	require.Nil(t, line.Threshold)
	require.WithinDuration(t, s.SalesCloseAt, *line.ClosesAt, 0)
}

func TestLargestHall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.Assigned)
	for i := range 100 {
		s.Sections = append(s.Sections, rows(fmt.Sprintf("S%d", i), 70, 20, 25))
	}
	snap, err := b.events.Put(t.Context(), s)
	require.NoError(t, err)
	require.EqualValues(t, 50_000, snap.TotalFree())
	require.Len(t, snap.Bitmap, 6250)

	s.Sections = append(s.Sections, rows("X", 1, 1000, 51))
	_, err = b.events.Put(t.Context(), s)
	require.ErrorIs(t, err, event.ErrInvalid)
	require.Equal(t, "sections", errs.From(err).Fields[0].Path)
}

func TestTicketsOfAReservation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 9), rows("B", 30, 1, 9)))
	g := spec("g", event.General, admissions("A", 55, 10))
	b.put(t, g)
	seats := b.mustHold(t, "u", "A-1-2", "B-1-3")
	b.paid(t, seats, payment(seats))
	general, err := b.holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "g", UserID: "u", Section: "A", Quantity: 2})
	require.NoError(t, err)
	b.paid(t, general, payment(general))

	list, err := b.store.ListTickets(t.Context(), "u", 10, [16]byte{})
	require.NoError(t, err)
	require.Len(t, list, 4)
	for _, tk := range list[:2] {
		require.Nil(t, tk.Seat)
		require.Equal(t, "A", tk.Section)
		require.EqualValues(t, 55, tk.Price)
		require.Equal(t, general.ID, tk.ReservationID)
	}
	require.Equal(t, seats.Seats[1], *list[2].Seat)
	require.Equal(t, seats.Seats[0], *list[3].Seat)
	require.EqualValues(t, 30, list[2].Price)
	one, err := b.store.FindTicket(t.Context(), list[3].ID)
	require.NoError(t, err)
	require.Equal(t, list[3], *one)
	rest, err := b.store.ListTickets(t.Context(), "u", 10, list[2].ID)
	require.NoError(t, err)
	require.Equal(t, list[3:], rest)

	sold, err := b.store.SoldByEvent(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"e": 2, "g": 2}, sold)
}
