package reservation

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/event/eventtest"
)

// snapshotTime is when the snapshots are taken.
var snapshotTime = time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)

// snapshotOf makes a snapshot from a drawing of a section: one string per row, `.` is a free seat.
func snapshotOf(at time.Time, rows ...string) (event.Snapshot, event.Section) {
	sec := event.Section{Name: "A", Rows: len(rows), SeatsPerRow: len(rows[0]), Capacity: int64(len(rows) * len(rows[0])), First: 3}
	e := event.Event{ID: "e", Spec: event.Spec{Seating: event.Assigned, Sections: []event.Section{{Name: "Z", Rows: 1, SeatsPerRow: 3}, sec}}}
	var taken []int32
	for r, row := range rows {
		for i := range row {
			if row[i] != '.' {
				taken = append(taken, int32(3+r*len(row)+i)) //nolint:gosec // a few seats
			}
		}
	}
	return eventtest.SnapshotWithSold(e, at, taken...), sec
}

func pickOnce(rows []string, n int, adjacent bool) []string {
	snap, sec := snapshotOf(snapshotTime, rows...)
	picked := newPicker().pick(&snap, sec, n, adjacent, 0)
	if picked == nil {
		return nil
	}
	return snap.Event.SeatsAt(picked)
}

func TestPickTakesTheBest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows     []string
		n        int
		adjacent bool
		want     []string
	}{
		"the middle of the front":     {[]string{".....", "....."}, 1, true, []string{"A-1-3"}},
		"a pair":                      {[]string{"......"}, 2, true, []string{"A-1-3", "A-1-4"}},
		"the next row":                {[]string{"x.x.x", "....."}, 2, true, []string{"A-2-1", "A-2-2"}},
		"no single seat left":         {[]string{"x...x"}, 2, true, []string{"A-1-2", "A-1-3"}},
		"rather a row back":           {[]string{"x...x", "x..xx"}, 2, true, []string{"A-2-2", "A-2-3"}},
		"never over the end of a row": {[]string{"xxxx.", ".xxxx"}, 2, true, nil},
		"a whole row":                 {[]string{"..x..", "....."}, 5, true, []string{"A-2-1", "A-2-2", "A-2-3", "A-2-4", "A-2-5"}},
		"more than a row":             {[]string{"....."}, 6, true, nil},
		"scattered":                   {[]string{".x.x.", "x.xxx"}, 4, false, []string{"A-1-1", "A-1-3", "A-1-5", "A-2-2"}},
		"scattered, the best":         {[]string{".x.x.", "....."}, 1, false, []string{"A-1-3"}},
		"too few":                     {[]string{".x.x."}, 4, false, nil},
		"none":                        {[]string{"xxxxx"}, 1, false, nil},
	} {
		require.Equal(t, c.want, pickOnce(c.rows, c.n, c.adjacent), name)
	}
}

func TestPickGivesNoSeatTwice(t *testing.T) {
	t.Parallel()
	for _, adjacent := range []bool{true, false} {
		p := newPicker()
		snap, sec := snapshotOf(snapshotTime, "..........", "..........")
		seen := make(map[int]bool)
		for try := range 10 {
			for _, i := range p.pick(&snap, sec, 2, adjacent, try) {
				require.False(t, seen[i])
				require.True(t, i >= sec.First && i < sec.First+20)
				seen[i] = true
			}
		}
		if !adjacent {
			require.Len(t, seen, 20)
			require.Nil(t, p.pick(&snap, sec, 1, false, 0))
			p.release("e", []int{sec.First + 4})
			require.Equal(t, []int{sec.First + 4}, p.pick(&snap, sec, 1, false, 0))
		}
		// A newer snapshot shows which of the picked seats were held.
		newer, _ := snapshotOf(snapshotTime.Add(time.Millisecond), "xxxxxxxxxx", ".xxxxxxxxx")
		require.Equal(t, []int{sec.First + 10}, p.pick(&newer, sec, 1, adjacent, 0))
	}
}

func TestLaterAttemptsPickAtRandom(t *testing.T) {
	t.Parallel()
	var firsts []int
	for range 200 {
		snap, sec := snapshotOf(snapshotTime, "....................", "....................")
		picked := newPicker().pick(&snap, sec, 2, true, 2)
		require.Len(t, picked, 2)
		if !slices.Contains(firsts, picked[0]) {
			firsts = append(firsts, picked[0])
		}
	}
	require.Greater(t, len(firsts), 4)
	require.LessOrEqual(t, len(firsts), 16)
}

func TestMiddleOut(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int{2, 3, 1, 4, 0}, middleOut(5))
	require.Equal(t, []int{1, 2, 0, 3}, middleOut(4))
	require.Equal(t, []int{0}, middleOut(1))
	require.Empty(t, middleOut(0))
	require.Empty(t, middleOut(-3))
}
