package events_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
)

// line reads the current settings of the line of event e.
func line(t *testing.T, svc *storetest.Service) event.LineSettings {
	t.Helper()
	l, err := svc.Events.LineSettings(t.Context(), "e")
	require.NoError(t, err)
	return l
}

func setThreshold(t *testing.T, svc *storetest.Service, n int64) {
	t.Helper()
	_, err := svc.Events.ChangeLine(t.Context(), "e", event.LineChange{Threshold: &n})
	require.NoError(t, err)
}

// Settings that a PUT leaves out stay as they are. So changing a title during a sale does not
// change the threshold.
func TestPutEventLeavesOmittedSettingsAlone(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	s.Threshold, s.SlotSeconds, s.HoldSeconds = new(int64(50)), new(int64(60)), new(int32(90))
	s.TimeZone = new("Europe/Paris")
	svc.Put(t, s)
	setThreshold(t, svc, 5)

	s.Title, s.Threshold, s.SlotSeconds, s.HoldSeconds, s.TimeZone = "Mended", nil, nil, nil, nil
	snap, err := svc.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.NoError(t, err)
	require.Equal(t, "Mended", snap.Event.Title)
	require.EqualValues(t, 90, *snap.Event.HoldSeconds)
	require.Equal(t, "Europe/Paris", *snap.Event.TimeZone)
	want := event.LineSettings{
		EventID: "e", Threshold: new(int64(5)), SlotSeconds: new(int64(60)), ClosesAt: &s.SalesCloseAt, BlockedUsers: []string{},
		NeverOpened: true,
	}
	require.Empty(t, cmp.Diff(want, line(t, svc)))

	s.SalesCloseAt = s.SalesCloseAt.Add(time.Hour)
	svc.Put(t, s)
	want.ClosesAt = &s.SalesCloseAt
	require.Empty(t, cmp.Diff(want, line(t, svc)), "the line closes with the sale")
}

// Two routes change the threshold. The last write is kept, whichever route wrote before.
func TestLastWriteOfASettingWins(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	s.Threshold = new(int64(50))
	svc.Put(t, s)
	setThreshold(t, svc, 5)
	svc.Put(t, s)
	require.EqualValues(t, 50, *line(t, svc).Threshold, "given, though the event was put with it before")
	setThreshold(t, svc, 7)
	s.SlotSeconds, s.Threshold = new(int64(120)), nil
	svc.Put(t, s)
	require.EqualValues(t, 7, *line(t, svc).Threshold)
	require.EqualValues(t, 120, *line(t, svc).SlotSeconds)
	s.Threshold = new(int64(0))
	svc.Put(t, s)
	require.Zero(t, *line(t, svc).Threshold, "nothing is not the same as left out")
}

// The queue service repeats operators' acts, and may send them late and in any order. Of two acts
// on one setting the later one counts. Acts on different settings do not affect each other.
func TestLaterActCounts(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	for _, step := range []struct {
		change event.LineChange
		later  int64
	}{
		{event.LineChange{Threshold: new(int64(5)), Act: 10}, 0},
		{event.LineChange{Paused: new(true), Act: 8}, 0},
		{event.LineChange{Threshold: new(int64(6)), Act: 9}, 10},
		{event.LineChange{Threshold: new(int64(7)), Act: 10}, 0}, // act 10 is stored already
		{event.LineChange{BlockUser: "a", Act: 3}, 0},
		{event.LineChange{BlockUser: "b", Act: 2}, 0},
		{event.LineChange{UnblockUser: "a", Act: 12}, 0},
		{event.LineChange{BlockUser: "a", Act: 11}, 12},
		{event.LineChange{Paused: new(false), Act: 7}, 8},
	} {
		l, err := svc.Events.ChangeLine(t.Context(), "e", step.change)
		require.NoError(t, err)
		require.Equal(t, step.later, l.LaterAct, "%+v", step.change)
	}
	want := event.LineSettings{EventID: "e", Threshold: new(int64(5)), Paused: true, BlockedUsers: []string{"b"}, NeverOpened: true, Act: 12}
	require.Empty(t, cmp.Diff(want, line(t, svc)))
	l, err := svc.Events.ChangeLine(t.Context(), "e", event.LineChange{Threshold: new(int64(1)), Act: 13})
	require.NoError(t, err)
	require.EqualValues(t, 1, *l.Threshold)

	results := storetest.Concurrently(8, func(i int) error {
		_, err := svc.Events.ChangeLine(t.Context(), "e", event.LineChange{Threshold: new(int64(100 + i)), Act: int64(100 + i)})
		return err
	})
	require.NoError(t, errors.Join(results...))
	require.EqualValues(t, 107, *line(t, svc).Threshold)
}

// A PUT of the threshold overrules an act that came before it, even if the queue service sends the
// act only after the PUT. The next act overrules the PUT.
func TestPutIsLaterThanActsBefore(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	s.Threshold = new(int64(50))
	svc.Put(t, s)
	act := func(n, number int64) event.LineSettings {
		l, err := svc.Events.ChangeLine(t.Context(), "e", event.LineChange{Threshold: &n, Act: number})
		require.NoError(t, err)
		return l
	}
	before := time.Now().UnixMicro()
	svc.Put(t, s)
	l := act(5, before-time.Minute.Microseconds())
	require.EqualValues(t, 50, *l.Threshold)
	require.Positive(t, l.LaterAct)
	require.EqualValues(t, 6, *act(6, l.LaterAct+1).Threshold)
	svc.Put(t, s)
	require.EqualValues(t, 50, *line(t, svc).Threshold)
}

// A refused act is not recorded, so that it may be repeated once fewer users are blocked.
func TestRefusedActIsNotRecorded(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, err := svc.Pool.Exec(t.Context(), `INSERT INTO line_settings (event_id, blocked_users)
		SELECT 'e', array_agg('u' || n) FROM generate_series(1, $1::int) n`, event.MaxBlockedUsers)
	require.NoError(t, err)
	act := event.LineChange{BlockUser: "bot", Act: 5}
	_, err = svc.Events.ChangeLine(t.Context(), "e", act)
	require.ErrorIs(t, err, event.ErrTooManyBlocked)
	_, err = svc.Events.ChangeLine(t.Context(), "e", event.LineChange{UnblockUser: "u1", Act: 6})
	require.NoError(t, err)
	_, err = svc.Events.ChangeLine(t.Context(), "e", act)
	require.NoError(t, err)
	require.Contains(t, line(t, svc).BlockedUsers, "bot")
}

// Only the first call marks a line as opened. It changes no settings, and later changes of settings
// keep the mark.
func TestOneCallOpensALine(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	svc.Put(t, s)
	_, err := svc.Events.ChangeLine(t.Context(), "campaign", event.LineChange{})
	require.NoError(t, err)
	for _, id := range []string{"e", "campaign"} {
		before, err := svc.Events.LineSettings(t.Context(), id)
		require.NoError(t, err)
		require.True(t, before.NeverOpened, id)
		var firstCalls atomic.Int32
		results := storetest.Concurrently(8, func(int) error {
			first, err := svc.Events.MarkLineOpened(t.Context(), id)
			if first {
				firstCalls.Add(1)
			}
			return err
		})
		require.NoError(t, errors.Join(results...))
		require.EqualValues(t, 1, firstCalls.Load(), id)
		after, err := svc.Events.LineSettings(t.Context(), id)
		require.NoError(t, err)
		before.NeverOpened = false
		require.Empty(t, cmp.Diff(before, after), id)
	}

	s.Threshold = new(int64(50))
	svc.Put(t, s)
	_, err = svc.Events.ChangeLine(t.Context(), "campaign", event.LineChange{Threshold: s.Threshold})
	require.NoError(t, err)
	for _, id := range []string{"e", "campaign"} {
		l, err := svc.Events.LineSettings(t.Context(), id)
		require.NoError(t, err)
		require.False(t, l.NeverOpened, id)
	}
	first, err := svc.Events.MarkLineOpened(t.Context(), "nowhere")
	require.NoError(t, err)
	require.False(t, first)
}

// Users blocked at the same time are all stored, but never more than the maximum.
func TestBlockedUsersAreBounded(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, err := svc.Pool.Exec(t.Context(), `INSERT INTO line_settings (event_id, blocked_users)
		SELECT 'e', array_agg('u' || n) FROM generate_series(1, $1::int) n`, event.MaxBlockedUsers-5)
	require.NoError(t, err)
	block := func(user string) error {
		_, err := svc.Events.ChangeLine(t.Context(), "e", event.LineChange{BlockUser: user, Paused: new(true)})
		return err
	}
	results := storetest.Concurrently(8, func(i int) error { return block(fmt.Sprintf("new%d", i)) })
	require.Equal(t, 5, storetest.CountSucceeded(t, results, event.ErrTooManyBlocked))
	require.Len(t, line(t, svc).BlockedUsers, event.MaxBlockedUsers)
	require.NoError(t, block("u1"), "blocked already")
	_, err = svc.Events.ChangeLine(t.Context(), "e", event.LineChange{Paused: new(false)})
	require.NoError(t, err, "other settings")
	_, err = svc.Events.ChangeLine(t.Context(), "e", event.LineChange{UnblockUser: "u1"})
	require.NoError(t, err)
	require.NoError(t, block("another"))
}

// If a line has settings before its event is put, they are kept.
func TestPutEventKeepsTheLinesSettings(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	setThreshold(t, svc, 5)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	s.SlotSeconds = new(int64(60))
	svc.Put(t, s)
	require.EqualValues(t, 5, *line(t, svc).Threshold)
	require.EqualValues(t, 60, *line(t, svc).SlotSeconds)
}

// A line is closed at its sale's closing time, by the database's clock, or when the refunds of its
// cancelled event have begun. A line without a sale is never closed.
func TestLineIsClosedAfterItsSale(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	svc.Put(t, s)
	require.False(t, line(t, svc).Closed)
	_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'PAUSED'`)
	require.NoError(t, err)
	require.False(t, line(t, svc).Closed, "it goes on")
	_, err = svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'CANCELLED'`)
	require.NoError(t, err)
	require.False(t, line(t, svc).Closed, "an undo must find its places")
	_, err = svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'ENDED'`)
	require.NoError(t, err)
	require.True(t, line(t, svc).Closed)
	_, err = svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'OPEN'`)
	require.NoError(t, err)
	svc.Clock.Set(s.SalesCloseAt)
	require.True(t, line(t, svc).Closed)
	promotion, err := svc.Events.ChangeLine(t.Context(), "promotion", event.LineChange{})
	require.NoError(t, err)
	require.False(t, promotion.Closed)
}

// Two operators have read the same settings. The second one's change must not undo the first one's,
// by either route.
func TestPutEventIfMatch(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	etag := func() string {
		t.Helper()
		set, err := svc.Events.Settings(t.Context(), "e")
		require.NoError(t, err)
		return set.ETag()
	}
	put := func(m *event.Match) error {
		t.Helper()
		_, err := svc.Events.Put(t.Context(), s.ID, s.Spec, m)
		return err
	}
	_, err := svc.Events.Settings(t.Context(), "e")
	require.ErrorIs(t, err, event.ErrNotFound)
	require.ErrorIs(t, put(&event.Match{Any: true}), event.ErrChanged, "there is nothing to match")
	require.Zero(t, svc.Count(t, `SELECT count(*) FROM events`))
	svc.Put(t, s)

	read := etag()
	s.Title = "Mended"
	require.NoError(t, put(&event.Match{ETags: []string{"another", read}}))
	s.Title = "Mended by somebody else"
	require.ErrorIs(t, put(&event.Match{ETags: []string{read}}), event.ErrChanged)
	require.NoError(t, put(&event.Match{Any: true}))

	read = etag()
	setThreshold(t, svc, 5)
	require.ErrorIs(t, put(&event.Match{ETags: []string{read}}), event.ErrChanged)
	read = etag()
	_, err = svc.Events.ChangeLine(t.Context(), "e", event.LineChange{Paused: new(true), BlockUser: "bot"})
	require.NoError(t, err)
	_, err = svc.HoldBest(t.Context(), "u", 2)
	require.NoError(t, err)
	require.Equal(t, read, etag(), "a PUT changes neither")
	require.ErrorIs(t, put(&event.Match{}), event.ErrChanged, "weak validators only")
}

// Of several concurrent PUTs with the same ETag, one succeeds.
func TestPutEventIfMatchConcurrently(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10))
	svc.Put(t, s)
	set, err := svc.Events.Settings(t.Context(), "e")
	require.NoError(t, err)
	results := storetest.Concurrently(8, func(i int) error {
		changed := s
		changed.Threshold = new(int64(i))
		_, err := svc.Events.Put(t.Context(), changed.ID, changed.Spec, &event.Match{ETags: []string{set.ETag()}})
		return err
	})
	require.Equal(t, 1, storetest.CountSucceeded(t, results, event.ErrChanged))
}

// Acts are deleted 30 days after they were stored, but the settings stay. Until then the queue
// service may send an earlier act.
func TestOldActsAreForgotten(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	laterAct := func(c event.LineChange) int64 {
		l, err := svc.Events.ChangeLine(t.Context(), "e", c)
		require.NoError(t, err)
		return l.LaterAct
	}
	acts := func() (n int) {
		require.NoError(t, svc.EventStore.PruneActs(t.Context()))
		require.NoError(t, svc.Pool.QueryRow(t.Context(), "SELECT count(*) FROM line_acts").Scan(&n))
		return n
	}
	require.Zero(t, laterAct(event.LineChange{BlockUser: "a", Act: 10}))
	require.Zero(t, laterAct(event.LineChange{BlockUser: "b", Act: 11}))
	svc.Clock.Advance(30*24*time.Hour - time.Minute)
	require.Equal(t, 2, acts())
	require.EqualValues(t, 10, laterAct(event.LineChange{UnblockUser: "a", Act: 9}))
	require.Zero(t, laterAct(event.LineChange{BlockUser: "a", Act: 12}))
	svc.Clock.Advance(2 * time.Minute)
	require.Equal(t, 1, acts(), "that on b")
	require.Equal(t, []string{"a", "b"}, line(t, svc).BlockedUsers)
}
