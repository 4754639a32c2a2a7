package postgres_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
)

// line is what is in force at the line of the event e.
func (b *bundle) line(t *testing.T) event.LineSettings {
	t.Helper()
	l, err := b.events.LineSettings(t.Context(), "e")
	require.NoError(t, err)
	return l
}

func (b *bundle) setThreshold(t *testing.T, n int64) {
	t.Helper()
	_, err := b.events.ChangeLine(t.Context(), "e", event.LineChange{Threshold: &n})
	require.NoError(t, err)
}

// An operator who mends a title during a sale must not open the floodgate: what a PUT leaves out stays as it is in force.
func TestPutEventLeavesOmittedSettingsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10))
	s.Threshold, s.SlotSeconds, s.HoldSeconds = ptr(int64(50)), ptr(int64(60)), ptr(int32(90))
	b.put(t, s)
	b.setThreshold(t, 5)

	s.Title, s.Threshold, s.SlotSeconds, s.HoldSeconds = "Mended", nil, nil, nil
	snap, err := b.events.Put(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, "Mended", snap.Event.Title)
	require.Equal(t, 90*time.Second, snap.Event.HoldFor)
	want := event.LineSettings{
		EventID: "e", Threshold: ptr(int64(5)), SlotSeconds: ptr(int64(60)), ClosesAt: &s.SalesCloseAt, BlockedUsers: []string{},
		NeverOpened: true,
	}
	require.Empty(t, cmp.Diff(want, b.line(t)))

	s.SalesCloseAt = s.SalesCloseAt.Add(time.Hour)
	b.put(t, s)
	want.ClosesAt = &s.SalesCloseAt
	require.Empty(t, cmp.Diff(want, b.line(t)), "the line closes with the sale")
}

// Of two routes to one setting the later writer wins, whatever each has written before.
func TestTheLastWriterOfASettingWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10))
	s.Threshold = ptr(int64(50))
	b.put(t, s)
	b.setThreshold(t, 5)
	b.put(t, s)
	require.EqualValues(t, 50, *b.line(t).Threshold, "given, though the event was put with it before")
	b.setThreshold(t, 7)
	s.SlotSeconds, s.Threshold = ptr(int64(120)), nil
	b.put(t, s)
	require.EqualValues(t, 7, *b.line(t).Threshold)
	require.EqualValues(t, 120, *b.line(t).SlotSeconds)
	s.Threshold = ptr(int64(0))
	b.put(t, s)
	require.Zero(t, *b.line(t).Threshold, "nothing is not the same as left out")
}

// A line is opened once, whoever asks and however often its settings are put; nothing else of it changes by that.
func TestOneCallerOpensALine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10))
	b.put(t, s)
	_, err := b.events.ChangeLine(t.Context(), "campaign", event.LineChange{})
	require.NoError(t, err)
	for _, id := range []string{"e", "campaign"} {
		before, err := b.events.LineSettings(t.Context(), id)
		require.NoError(t, err)
		require.True(t, before.NeverOpened, id)
		var firsts atomic.Int32
		results := together(8, func(int) error {
			first, err := b.events.MarkLineOpened(t.Context(), id)
			if first {
				firsts.Add(1)
			}
			return err
		})
		require.NoError(t, errors.Join(results...))
		require.EqualValues(t, 1, firsts.Load(), id)
		after, err := b.events.LineSettings(t.Context(), id)
		require.NoError(t, err)
		before.NeverOpened = false
		require.Empty(t, cmp.Diff(before, after), id)
	}
	s.Threshold = ptr(int64(50))
	b.put(t, s)
	_, err = b.events.ChangeLine(t.Context(), "campaign", event.LineChange{Threshold: s.Threshold})
	require.NoError(t, err)
	for _, id := range []string{"e", "campaign"} {
		l, err := b.events.LineSettings(t.Context(), id)
		require.NoError(t, err)
		require.False(t, l.NeverOpened, id)
	}
	first, err := b.events.MarkLineOpened(t.Context(), "nowhere")
	require.NoError(t, err)
	require.False(t, first)
}

// Its queue may have opened the line without recording it.
func TestALineThatThePreviousReleaseInsertsCountsAsOpened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO line_settings (event_id, threshold, slot_seconds) VALUES ('e', 1, 60)`)
	require.NoError(t, err)
	require.False(t, b.line(t).NeverOpened)
}

// Whoever set up the line before the event was there meant it.
func TestANewEventKeepsItsLinesSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.setThreshold(t, 5)
	s := spec("e", event.General, admissions("A", 70, 10))
	s.SlotSeconds = ptr(int64(60))
	b.put(t, s)
	require.EqualValues(t, 5, *b.line(t).Threshold)
	require.EqualValues(t, 60, *b.line(t).SlotSeconds)
}

// The previous release compares what it is given with the event's own columns, and writes both where they differ: while it runs beside
// this one, it must find nothing there that would make an omitted setting a change.
func TestPutEventLeavesThePreviousReleaseNothingToUndo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10))
	s.Threshold, s.SlotSeconds = ptr(int64(50)), ptr(int64(60))
	b.put(t, s)
	s.Title = "Mended"
	b.put(t, s)
	require.Zero(t, b.count(t, `SELECT count(*) FROM events WHERE threshold IS NOT NULL OR slot_seconds IS NOT NULL`))
}

// A sale ends at its closing time, by the database's clock, or when the event is cancelled; what is no sale never does.
func TestALineKnowsThatItsSaleHasEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10))
	b.put(t, s)
	require.False(t, b.line(t).Closed)
	_, err := b.pool.Exec(t.Context(), `UPDATE events SET state = 'PAUSED'`)
	require.NoError(t, err)
	require.False(t, b.line(t).Closed, "it goes on")
	_, err = b.pool.Exec(t.Context(), `UPDATE events SET state = 'CANCELLED'`)
	require.NoError(t, err)
	require.True(t, b.line(t).Closed)
	_, err = b.pool.Exec(t.Context(), `UPDATE events SET state = 'OPEN'`)
	require.NoError(t, err)
	b.clock.Set(s.SalesCloseAt)
	require.True(t, b.line(t).Closed)
	promotion, err := b.events.ChangeLine(t.Context(), "promotion", event.LineChange{})
	require.NoError(t, err)
	require.False(t, promotion.Closed)
}

// Two operators who have read the same settings: the one who comes second must not undo what the first has done, by whichever route.
func TestPutEventIfMatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10))
	etag := func() string {
		t.Helper()
		set, err := b.events.Settings(t.Context(), "e")
		require.NoError(t, err)
		return set.ETag()
	}
	put := func(m *event.Match) error {
		t.Helper()
		with := s
		with.IfMatch = m
		_, err := b.events.Put(t.Context(), with)
		return err
	}
	_, err := b.events.Settings(t.Context(), "e")
	require.ErrorIs(t, err, event.ErrNotFound)
	require.ErrorIs(t, put(&event.Match{Any: true}), event.ErrChanged, "there is nothing to match")
	require.Zero(t, b.count(t, `SELECT count(*) FROM events`))
	b.put(t, s)

	read := etag()
	s.Title = "Mended"
	require.NoError(t, put(&event.Match{ETags: []string{"another", read}}))
	s.Title = "Mended by somebody else"
	require.ErrorIs(t, put(&event.Match{ETags: []string{read}}), event.ErrChanged)
	require.NoError(t, put(&event.Match{Any: true}))

	read = etag()
	b.setThreshold(t, 5)
	require.ErrorIs(t, put(&event.Match{ETags: []string{read}}), event.ErrChanged)
	read = etag()
	_, err = b.events.ChangeLine(t.Context(), "e", event.LineChange{Paused: ptr(true), BlockUser: "bot"})
	require.NoError(t, err)
	_, err = b.best(t.Context(), "u", 2)
	require.NoError(t, err)
	require.Equal(t, read, etag(), "a PUT changes neither")
	require.ErrorIs(t, put(&event.Match{}), event.ErrChanged, "weak validators only")
}

// Of all who put with one ETag, one does.
func TestPutEventIfMatchConcurrently(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.General, admissions("A", 70, 10))
	b.put(t, s)
	set, err := b.events.Settings(t.Context(), "e")
	require.NoError(t, err)
	results := together(8, func(i int) error {
		with := s
		with.Threshold, with.IfMatch = ptr(int64(i)), &event.Match{ETags: []string{set.ETag()}}
		_, err := b.events.Put(t.Context(), with)
		return err
	})
	require.Equal(t, 1, succeeded(t, results, event.ErrChanged))
}
