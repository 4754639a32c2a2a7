package events_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

func TestPutEventCreatesWhatIsDescribed(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 2, 3), storetest.Rows("B", 50, 1, 2))
	s.HoldSeconds = new(int32(90))
	snap, err := svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.NoError(t, err)

	want := event.Event{ID: "e", State: event.Open, Version: 1}
	want.Spec, err = s.Validated()
	require.NoError(t, err)
	want.Complete(nil)
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
		require.Equal(t, idx, svc.Count(t, `SELECT idx FROM seats WHERE seat_id = $1`, id))
	}
	_, err = svc.EventStore.FindEvent(t.Context(), "other")
	require.ErrorIs(t, err, event.ErrNotFound)
}

func TestPutEventAgainIsNoChange(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	for _, s := range []event.Event{
		storetest.Spec("assigned", event.Assigned, storetest.Rows("A", 70, 2, 3), storetest.Rows("B", 50, 1, 2)),
		storetest.Spec("general", event.General, storetest.Admissions("A", 70, 3)),
	} {
		s.StartsAt = s.StartsAt.Truncate(time.Microsecond).Add(123 * time.Nanosecond)
		s.Threshold, s.SlotSeconds, s.HoldSeconds = new(int64(50)), new(int64(60)), new(int32(90))
		svc.Put(t, s)
		svc.Put(t, s)
		s.Threshold, s.SlotSeconds, s.HoldSeconds = nil, nil, nil
		svc.Put(t, s)
		require.EqualValues(t, 1, svc.Count(t, `SELECT version FROM events WHERE event_id = $1`, s.ID))
	}
}

func TestPutEventConcurrently(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 5, 10))
	for _, err := range storetest.Concurrently(8, func(int) error { _, err := svc.Events.Put(t.Context(), s.ID, s.Spec, nil); return err }) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 50, svc.Count(t, `SELECT count(*) FROM seats`))
	svc.RequireInvariants(t)
}

func TestPutEventBeforeTheSale(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 5, 10))
	s.SalesOpenAt = storetest.Start.Add(time.Hour)
	svc.Put(t, s)
	s.Sections = []event.Section{storetest.Rows("B", 10, 1, 4), storetest.Rows("A", 20, 2, 2)}
	svc.Put(t, s)
	require.EqualValues(t, 8, svc.Count(t, `SELECT count(*) FROM seats`))
	s.Seating, s.Sections, s.Currency = event.General, []event.Section{storetest.Admissions("G", 10, 7)}, "USD"
	snap, err := svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{7}, snap.Free)
	require.Zero(t, svc.Count(t, `SELECT count(*) FROM seats`))
	require.Equal(t, event.StatusScheduled, snap.Status())
}

func TestPutEventKeepsHeldAndSoldPlaces(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10))
	svc.Put(t, s)
	r := svc.MustHoldSeats(t, "u", "A-1-1")

	for name, change := range map[string]func(*event.Event){
		"another layout":   func(s *event.Event) { s.Sections = []event.Section{storetest.Rows("A", 70, 1, 9)} },
		"one more section": func(s *event.Event) { s.Sections = append(s.Sections, storetest.Rows("B", 70, 1, 9)) },
		"other seating": func(s *event.Event) {
			s.Seating, s.Sections = event.General, []event.Section{storetest.Admissions("A", 70, 10)}
		},
		"another currency": func(s *event.Event) { s.Currency = "USD" },
	} {
		changed := s
		change(&changed)
		_, err := svc.Events.Put(t.Context(), changed.ID, changed.Spec, nil)
		require.ErrorIs(t, err, event.ErrLocked, name)
		// The change is refused even if it also lets the sale open later.
		changed.SalesOpenAt = storetest.Start.Add(time.Hour)
		_, err = svc.Events.Put(t.Context(), changed.ID, changed.Spec, nil)
		require.ErrorIs(t, err, event.ErrLocked, name)
	}
	s.Title, s.MaxPerUser, s.Sections = "New title", 1, []event.Section{storetest.Rows("A", 100, 1, 10)}
	svc.Put(t, s)
	require.EqualValues(t, 70, svc.Find(t, r.ID).Amount, "what is held keeps its price")
	require.EqualValues(t, 100, svc.MustHoldSeats(t, "v", "A-1-2").Amount)
	svc.RequireInvariants(t)
}

func TestPutEventCapacity(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10), storetest.Admissions("B", 70, 10))
	svc.Put(t, s)
	_, err := svc.HoldBest(t.Context(), "u", 4)
	require.NoError(t, err)

	s.Sections[0].Capacity = 3
	_, err = svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.ErrorIs(t, err, event.ErrLocked)
	s.Sections[0].Capacity = 4
	snap, err := svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 10}, snap.Free)
	s.Sections[0].Capacity = 20
	snap, err = svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{16, 10}, snap.Free)
	svc.RequireInvariants(t)
}

func TestCreateEventOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("", event.General, storetest.Admissions("A", 70, 10))
	k, err := idempotency.New("op", "CreateEvent", "k", "body")
	require.NoError(t, err)
	first, err := svc.Events.Create(t.Context(), s.Spec, k)
	require.NoError(t, err)
	again, err := svc.Events.Create(t.Context(), s.Spec, k)
	require.NoError(t, err)
	require.Equal(t, first.Event, again.Event)
	other, err := svc.Events.Create(t.Context(), s.Spec, nil)
	require.NoError(t, err)
	require.NotEqual(t, first.Event.ID, other.Event.ID)
	require.EqualValues(t, 2, svc.Count(t, `SELECT count(*) FROM events`))
}

func TestSnapshotShowsExpiredHoldsAsFree(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9), storetest.Rows("B", 70, 1, 3)))
	empty, err := svc.EventStore.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	svc.MustHoldSeats(t, "u", "A-1-9", "B-1-1")
	held, err := svc.EventStore.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []byte{0b11111111, 0b00110000}, held.Bitmap)
	require.Equal(t, []int64{8, 2}, held.Free)
	require.NotEqual(t, empty.ETag, held.ETag)
	svc.Clock.Advance(storetest.HoldFor)
	lapsed, err := svc.EventStore.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, empty.Bitmap, lapsed.Bitmap)
	require.Equal(t, empty.ETag, lapsed.ETag)
}

func TestListEvents(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	for i := range 5 {
		s := storetest.Spec(fmt.Sprintf("e%d", i), event.General, storetest.Admissions("A", 70, 10))
		if i%2 == 0 {
			s = storetest.Spec(fmt.Sprintf("e%d", i), event.Assigned, storetest.Rows("A", 70, 1, 9), storetest.Rows("B", 70, 1, 3))
		}
		s.StartsAt = storetest.Start.AddDate(0, 1, i/2) // two events a day
		svc.Put(t, s)
	}
	var ids []string
	var after event.Cursor
	for range 3 {
		page, next, err := svc.Events.List(t.Context(), 2, after)
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

	_, err := svc.Holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: "e4", UserID: "u", SeatIDs: []string{"B-1-2"}})
	require.NoError(t, err)
	list, _, err := svc.Replica(t).Events.List(t.Context(), 1, event.Cursor{})
	require.NoError(t, err)
	require.Equal(t, []int64{9, 2}, list[0].Free)
}

func TestLineSettings(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, err := svc.Events.LineSettings(t.Context(), "promotion")
	require.ErrorIs(t, err, event.ErrNotFound, "an id that nobody ever put anything for")
	line, err := svc.Events.ChangeLine(t.Context(), "promotion", event.LineChange{})
	require.NoError(t, err, "this is how it becomes known")
	require.Equal(t, event.LineSettings{EventID: "promotion", BlockedUsers: []string{}, NeverOpened: true}, line)

	for _, c := range []event.LineChange{
		{Threshold: new(int64(0)), BlockUser: "x"}, {Paused: new(true), BlockUser: "z"}, {BlockUser: "y"}, {BlockUser: "x"}, {Paused: new(false)},
		{UnblockUser: "z"}, {UnblockUser: "z"}, {UnblockUser: "nobody"}, {},
	} {
		line, err = svc.Events.ChangeLine(t.Context(), "promotion", c)
		require.NoError(t, err)
	}
	want := event.LineSettings{
		EventID: "promotion", Threshold: new(int64(0)), BlockedUsers: []string{"x", "y"}, NeverOpened: true,
	}
	require.Equal(t, want, line)

	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	s.SlotSeconds = new(int64(60))
	svc.Put(t, s)
	line, err = svc.Events.LineSettings(t.Context(), "e")
	require.NoError(t, err)
	require.EqualValues(t, 60, *line.SlotSeconds)
	require.Nil(t, line.Threshold)
	require.WithinDuration(t, s.SalesCloseAt, *line.ClosesAt, 0)
}

func TestLargestHall(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.Assigned)
	for i := range 100 {
		s.Sections = append(s.Sections, storetest.Rows(fmt.Sprintf("S%d", i), 70, 20, 25))
	}
	snap, err := svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.NoError(t, err)
	require.EqualValues(t, 50_000, snap.TotalFree())
	require.Len(t, snap.Bitmap, 6250)

	s.Sections = append(s.Sections, storetest.Rows("X", 1, 1000, 51))
	_, err = svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.ErrorIs(t, err, event.ErrInvalid)
	require.Equal(t, "sections", errs.From(err).Fields[0].Path)
}

func TestPlacesByEvent(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	svc.Put(t, storetest.Spec("g", event.General, storetest.Admissions("A", 55, 10)))
	seats := svc.MustHoldSeats(t, "u", "A-1-2", "A-1-3")
	svc.Confirm(t, seats, storetest.Payment(seats))
	_, err := svc.Holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "g", UserID: "u", Section: "A", Quantity: 2})
	require.NoError(t, err)
	_, err = svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-9"}})
	require.NoError(t, err)
	places, err := svc.EventStore.PlacesByEvent(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, map[string]event.Places{"e": {Sold: 2, House: 1, Selling: true}, "g": {Selling: true}}, places, "held is not sold")
}

// A sale with a presale has two openings. A PUT without expected visitors keeps the stored ones,
// and a PUT with zero visitors deletes them.
func TestExpectedOpenings(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	opens, presale := s.SalesOpenAt, s.SalesOpenAt.Add(-2*time.Hour)
	s.Expected = &plan.Expected{Visitors: 100_000, WithinSeconds: 60}
	s.Presale = &event.Presale{OpensAt: presale, Ways: []event.Way{{List: "partners"}}}
	svc.Put(t, s)
	svc.Put(t, storetest.Spec("f", event.General, storetest.Admissions("A", 70, 10)))
	find := func(since, until time.Time) (times []time.Time) {
		t.Helper()
		found, err := svc.EventStore.ExpectedOpenings(t.Context(), since, until)
		require.NoError(t, err)
		for _, o := range found {
			require.Equal(t, planned.Opening{EventID: "e", At: o.At, Expected: plan.Expected{Visitors: 100_000, WithinSeconds: 60}}, o)
			times = append(times, o.At.UTC())
		}
		return times
	}
	require.Equal(t, []time.Time{opens, presale}, find(presale.Add(-time.Second), opens))
	require.Equal(t, []time.Time{presale}, find(presale.Add(-time.Second), opens.Add(-time.Second)))
	require.Equal(t, []time.Time{opens}, find(presale, opens))
	require.Empty(t, find(opens, opens.Add(time.Hour)))
	s.Expected, s.Title = nil, "Mended"
	svc.Put(t, s)
	require.Len(t, find(presale, opens), 1)
	s.Expected = &plan.Expected{}
	svc.Put(t, s)
	require.Empty(t, find(presale, opens))
}
