package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/event/eventtest"
)

func hall(sections ...event.Section) event.Event {
	first := 0
	for i := range sections {
		sections[i].First = first
		first += sections[i].Rows * sections[i].SeatsPerRow
		sections[i].Capacity = int64(sections[i].Rows * sections[i].SeatsPerRow)
	}
	return event.Event{ID: "e", Spec: event.Spec{Seating: event.Assigned, Sections: sections}}
}

func TestLayoutPlacesEverySeatOnce(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]event.Event{
		"one":    hall(event.Section{Name: "A", Rows: 1, SeatsPerRow: 1}),
		"two":    hall(event.Section{Name: "A", Rows: 5, SeatsPerRow: 10}, event.Section{Name: "B", Rows: 3, SeatsPerRow: 30}),
		"wide":   hall(event.Section{Name: "A", Rows: 1, SeatsPerRow: 500}, event.Section{Name: "B", Rows: 1, SeatsPerRow: 2}),
		"many":   hall(manySections(40)...),
		"towers": hall(event.Section{Name: "A", Rows: 200, SeatsPerRow: 2}, event.Section{Name: "B", Rows: 100, SeatsPerRow: 2}),
	} {
		l := e.Layout()
		require.Len(t, l.Sections, len(e.Sections), name)
		type point struct{ x, y int }
		places := make(map[point]string)
		index := 0
		for i, s := range l.Sections {
			require.Equal(t, e.Sections[i].Name, s.Name)
			require.Equal(t, e.Sections[i].First, index)
			for r, row := range s.Rows {
				for n := 1; n <= row.Seats; n++ {
					id := event.SeatID(s.Name, r+1, n)
					require.Equal(t, []string{id}, e.SeatsAt([]int{index}))
					at := point{row.X + n - 1, row.Y}
					require.NotContains(t, places, at, "%s: %s stands on %s", name, id, places[at])
					require.GreaterOrEqual(t, at.x, 0)
					require.GreaterOrEqual(t, at.y, 0)
					places[at] = id
					index++
				}
			}
		}
		require.Equal(t, l.Seats, index)
		require.Equal(t, []string{"", ""}, e.SeatsAt([]int{-1, index}))
	}
}

func manySections(n int) []event.Section {
	list := make([]event.Section, n)
	for i := range list {
		list[i] = event.Section{Name: string(rune('A'+i%26)) + string(rune('0'+i/26)), Rows: i%7 + 1, SeatsPerRow: i%11 + 1}
	}
	return list
}

func TestLayoutETag(t *testing.T) {
	t.Parallel()
	e := hall(event.Section{Name: "A", Rows: 2, SeatsPerRow: 3, Price: 5}, event.Section{Name: "B", Rows: 1, SeatsPerRow: 3})
	seen := map[string]string{e.Layout().ETag: "itself"}
	dearer := hall(event.Section{Name: "A", Rows: 2, SeatsPerRow: 3, Price: 6}, event.Section{Name: "B", Rows: 1, SeatsPerRow: 3})
	require.Equal(t, e.Layout(), dearer.Layout(), "browsers keep a map, so it has no prices")
	for name, other := range map[string]event.Event{
		"rows":    hall(event.Section{Name: "A", Rows: 3, SeatsPerRow: 3, Price: 5}, event.Section{Name: "B", Rows: 1, SeatsPerRow: 3}),
		"name":    hall(event.Section{Name: "A", Rows: 2, SeatsPerRow: 3, Price: 5}, event.Section{Name: "C", Rows: 1, SeatsPerRow: 3}),
		"order":   hall(event.Section{Name: "B", Rows: 1, SeatsPerRow: 3}, event.Section{Name: "A", Rows: 2, SeatsPerRow: 3, Price: 5}),
		"missing": hall(event.Section{Name: "A", Rows: 2, SeatsPerRow: 3, Price: 5}),
	} {
		require.NotContains(t, seen, other.Layout().ETag, name)
		seen[other.Layout().ETag] = name
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	e := hall(event.Section{Name: "A", Rows: 2, SeatsPerRow: 9}, event.Section{Name: "B", Rows: 1, SeatsPerRow: 3})
	now := time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)
	s := eventtest.SnapshotWithSold(e, now, 0, 8, 17, 18)
	require.Equal(t, []byte{0b01111111, 0b01111111, 0b10011000}, s.Bitmap)
	require.Equal(t, []int64{15, 2}, s.Free)
	require.EqualValues(t, 17, s.TotalFree())
	free := 0
	for i := range 21 {
		if s.IsFree(i) {
			free++
		}
	}
	require.Equal(t, 17, free)
	require.NotEqual(t, s.ETag, eventtest.SnapshotWithSold(e, now, 0, 8, 17, 19).ETag)
	require.Equal(t, s.ETag, eventtest.SnapshotWithSold(e, now.Add(time.Hour), 18, 17, 8, 0).ETag)

	general := event.Event{Spec: event.Spec{Seating: event.General, Sections: []event.Section{{Name: "A", Capacity: 10}, {Name: "B", Capacity: 10}}}}
	g := event.NewSnapshotFromCounts(general, now, event.Counts{"A": {Taken: 7}, "B": {Taken: 6, Sold: 6}})
	require.EqualValues(t, 7, g.TotalFree())
	require.EqualValues(t, 6, g.Sold)
	require.Empty(t, g.Bitmap)
	require.NotEqual(t, g.ETag, event.NewSnapshotFromCounts(general, now, event.Counts{"A": {Taken: 6}, "B": {Taken: 7}}).ETag)
}
