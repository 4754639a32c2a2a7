package line

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

func newClock() *testkit.Clock { return testkit.NewClock(time.UnixMilli(1_000_000)) }

func newTestCache() (*LineCache, *testkit.Clock) {
	c := newClock()
	return NewLineCache(c.Now), c
}

func TestCacheKeepsLatestState(t *testing.T) {
	t.Parallel()
	b, _ := newTestCache()
	require.Equal(t, KnownState{}, b.Snapshot("ev"))
	b.Observe("ev", LineState{Epoch: 5, Rev: 7, Now: 100, SettingsAt: 90, Threshold: 3, Paused: true, SlotMS: 60, ClosesAt: 1000})
	want := KnownState{Epoch: 5, Rev: 7, AnsweredAt: 100, SettingsAt: 90, Threshold: 3, Paused: true, SlotMS: 60, ClosesAt: 1000}
	require.Equal(t, want, b.Snapshot("ev"))
	for name, late := range map[string]LineState{
		"an older rev":    {Epoch: 5, Rev: 6, Now: 101, SettingsAt: 90, Threshold: 9},
		"an older epoch":  {Epoch: 4, Rev: 99, Now: 101, SettingsAt: 90, Threshold: 9},
		"an earlier time": {Epoch: 5, Rev: 7, Now: 99, SettingsAt: 90, Threshold: 9},
		"no line":         {Now: 200, Threshold: 9},
	} {
		b.Observe("ev", late)
		require.Equal(t, want, b.Snapshot("ev"), name)
	}
	b.Observe("ev", LineState{Epoch: 6, Rev: 0, Now: 50})
	want.Epoch, want.Rev, want.AnsweredAt = 6, 0, 50
	require.Equal(t, want, b.Snapshot("ev"), "settings are remembered until the line has read them again")
}

func TestContactExpires(t *testing.T) {
	t.Parallel()
	b, c := newTestCache()
	b.Observe("a", LineState{Epoch: 1, Rev: 1, Now: 1})
	b.Observe("b", LineState{Epoch: 1, Rev: 1, Now: 1})
	c.Advance(30 * time.Second)
	b.RecordContact("b")
	b.RecordContact("made up")
	c.Advance(31 * time.Second)
	require.Equal(t, []string{"b"}, b.ContactedLines())
	c.Advance(time.Hour - 40*time.Second)
	require.Equal(t, []string{"a"}, b.ForgetUnused(nil))
	c.Advance(time.Minute)
	require.Empty(t, b.ForgetUnused(map[string]bool{"b": true}), "the registry lists it")
	require.Equal(t, []string{"b"}, b.ForgetUnused(nil))
}

func TestIdleTime(t *testing.T) {
	t.Parallel()
	b, c := newTestCache()
	b.RecordContact("ev")
	b.Observe("ev", LineState{Epoch: 1, Rev: 1, Now: 1, Waiting: 1})
	c.Advance(time.Hour)
	require.Zero(t, b.idleTime("ev"), "somebody waits")
	b.Observe("ev", LineState{Epoch: 1, Rev: 2, Now: 2})
	c.Advance(time.Minute)
	require.Equal(t, time.Minute, b.idleTime("ev"))
	b.RecordContact("ev")
	require.Zero(t, b.idleTime("ev"))
	c.Advance(2 * time.Minute)
	b.Observe("ev", LineState{Epoch: 1, Rev: 3, Now: 3})
	require.Equal(t, 2*time.Minute, b.idleTime("ev"))
}

func TestWatchSendsEveryEpoch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, watchersSeeEveryEpoch) // a beat comes only where the test waits for one
}

func watchersSeeEveryEpoch(t *testing.T) {
	b, _ := newTestCache()
	b.Observe("a", LineState{Epoch: 1, Rev: 1, Now: 1})
	got := make(chan []LineUpdate, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- b.Watch(ctx, func(lines []LineUpdate, _ bool) error {
			got <- lines
			return nil
		})
	}()
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 1}}, <-got)
	b.Observe("a", LineState{Epoch: 1, Rev: 2, Now: 2}) // nothing that concerns a gateway
	b.Observe("b", LineState{Epoch: 3, Rev: 1, Now: 2, PauseUntil: 30})
	require.Equal(t, []LineUpdate{{EventID: "b", Epoch: 3, PauseUntil: 30}}, <-got)
	b.Observe("a", LineState{Epoch: 2, Rev: 0, Now: 3})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2}}, <-got)
	// An opened line turns out to have been lost.
	b.Observe("a", LineState{Epoch: 2, Rev: 0, Now: 4, PauseUntil: 40})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2, PauseUntil: 40}}, <-got)
	b.SetSale("a", Sale{Status: Scheduled, OpensAt: 6, At: 4})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2, PauseUntil: 40, Sale: Scheduled}}, <-got)
	// The same.
	b.SetSale("a", Sale{Status: Scheduled, OpensAt: 6, At: 5})
	// An older report.
	b.Observe("a", LineState{Epoch: 2, Rev: 1, Now: 5, PauseUntil: 40, Sale: Sale{Status: SoldOut, OpensAt: 6, At: 3}})
	b.Observe("a", LineState{Epoch: 2, Rev: 1, Now: 6, PauseUntil: 40})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2, PauseUntil: 40, Sale: OnSale}}, <-got)
	quiet := time.Now()
	require.Empty(t, <-got, "a beat when nothing changes")
	require.Equal(t, heartbeatInterval, time.Since(quiet))
	cancel()
	require.NoError(t, <-done)
}

func TestCachedStateExpires(t *testing.T) {
	t.Parallel()
	b, c := newTestCache()
	b.Observe("ev", LineState{Epoch: 1, Rev: 1, Now: 100})
	c.Advance(maxStateAge - time.Millisecond)
	s, ok := b.findOrCreateEntry("ev").currentState(c.Now())
	require.True(t, ok)
	require.Equal(t, 100+maxStateAge.Milliseconds()-1, s.Now, "its time goes on")
	c.Advance(time.Millisecond)
	_, ok = b.findOrCreateEntry("ev").currentState(c.Now())
	require.False(t, ok)
}

// A clock that was set back must not keep a replica from hearing of the line.
func TestCacheAcceptsStateAfterClockWentBack(t *testing.T) {
	t.Parallel()
	b, _ := newTestCache()
	b.Observe("ev", LineState{Epoch: 5, Rev: 7, Now: 10_000, Waiting: 1})
	b.Observe("ev", LineState{Epoch: 5, Rev: 8, Now: 500, Waiting: 2})
	require.Equal(t, KnownState{Epoch: 5, Rev: 8, AnsweredAt: 500}, b.Snapshot("ev"))
	b.Observe("ev", LineState{Epoch: 5, Rev: 8, Now: 600, Waiting: 2})
	require.Equal(t, int64(600), b.Snapshot("ev").AnsweredAt)
}
