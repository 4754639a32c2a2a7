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
	clock := newClock()
	return NewLineCache(clock.Now), clock
}

func TestCacheKeepsLatestState(t *testing.T) {
	t.Parallel()
	cache, _ := newTestCache()
	require.Equal(t, KnownState{}, cache.Snapshot("ev"))
	cache.Observe("ev", LineState{Epoch: 5, Revision: 7, Now: 100, SettingsAt: 90, Threshold: 3, Paused: true, SlotMS: 60, ClosesAt: 1000})
	want := KnownState{Epoch: 5, Revision: 7, AnsweredAt: 100, SettingsAt: 90, Threshold: 3, Paused: true, SlotMS: 60, ClosesAt: 1000}
	require.Equal(t, want, cache.Snapshot("ev"))
	for name, late := range map[string]LineState{
		"an older rev":    {Epoch: 5, Revision: 6, Now: 101, SettingsAt: 90, Threshold: 9},
		"an older epoch":  {Epoch: 4, Revision: 99, Now: 101, SettingsAt: 90, Threshold: 9},
		"an earlier time": {Epoch: 5, Revision: 7, Now: 99, SettingsAt: 90, Threshold: 9},
		"no line":         {Now: 200, Threshold: 9},
	} {
		cache.Observe("ev", late)
		require.Equal(t, want, cache.Snapshot("ev"), name)
	}
	cache.Observe("ev", LineState{Epoch: 6, Revision: 0, Now: 50})
	want.Epoch, want.Revision, want.AnsweredAt = 6, 0, 50
	require.Equal(t, want, cache.Snapshot("ev"), "settings are remembered until the line has read them again")
}

func TestContactExpires(t *testing.T) {
	t.Parallel()
	cache, clock := newTestCache()
	cache.Observe("a", LineState{Epoch: 1, Revision: 1, Now: 1})
	cache.Observe("b", LineState{Epoch: 1, Revision: 1, Now: 1})
	clock.Advance(30 * time.Second)
	cache.RecordContact("b")
	cache.RecordContact("made up")
	clock.Advance(31 * time.Second)
	require.Equal(t, []string{"b"}, cache.ContactedLines())
	clock.Advance(time.Hour - 40*time.Second)
	require.Equal(t, []string{"a"}, cache.ForgetUnused(nil))
	clock.Advance(time.Minute)
	require.Empty(t, cache.ForgetUnused(map[string]bool{"b": true}), "the registry lists it")
	require.Equal(t, []string{"b"}, cache.ForgetUnused(nil))
}

func TestIdleTime(t *testing.T) {
	t.Parallel()
	cache, clock := newTestCache()
	cache.RecordContact("ev")
	cache.Observe("ev", LineState{Epoch: 1, Revision: 1, Now: 1, Waiting: 1})
	clock.Advance(time.Hour)
	require.Zero(t, cache.idleTime("ev"), "somebody waits")
	cache.Observe("ev", LineState{Epoch: 1, Revision: 2, Now: 2})
	clock.Advance(time.Minute)
	require.Equal(t, time.Minute, cache.idleTime("ev"))
	cache.RecordContact("ev")
	require.Zero(t, cache.idleTime("ev"))
	clock.Advance(2 * time.Minute)
	cache.Observe("ev", LineState{Epoch: 1, Revision: 3, Now: 3})
	require.Equal(t, 2*time.Minute, cache.idleTime("ev"))
}

func TestWatchSendsEveryEpoch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, watchersSeeEveryEpoch) // its fake clock controls heartbeats
}

func watchersSeeEveryEpoch(t *testing.T) {
	cache, _ := newTestCache()
	cache.Observe("a", LineState{Epoch: 1, Revision: 1, Now: 1})
	got := make(chan []LineUpdate, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- cache.Watch(ctx, func(lines []LineUpdate, _ bool) error {
			got <- lines
			return nil
		})
	}()
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 1}}, <-got)
	cache.Observe("a", LineState{Epoch: 1, Revision: 2, Now: 2}) // a new Rev alone is not sent to gateways
	cache.Observe("b", LineState{Epoch: 3, Revision: 1, Now: 2, PauseUntil: 30})
	require.Equal(t, []LineUpdate{{EventID: "b", Epoch: 3, PauseUntil: 30}}, <-got)
	cache.Observe("a", LineState{Epoch: 2, Revision: 0, Now: 3})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2}}, <-got)
	// The line was opened as new, and is then found to have been lost.
	cache.Observe("a", LineState{Epoch: 2, Revision: 0, Now: 4, PauseUntil: 40})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2, PauseUntil: 40}}, <-got)
	cache.SetSale("a", Sale{Status: Scheduled, OpensAt: 6, At: 4})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2, PauseUntil: 40, Sale: Scheduled}}, <-got)
	// A new report with the same status is not sent to watchers.
	cache.SetSale("a", Sale{Status: Scheduled, OpensAt: 6, At: 5})
	// An older report is not sent either.
	cache.Observe("a", LineState{Epoch: 2, Revision: 1, Now: 5, PauseUntil: 40, Sale: Sale{Status: SoldOut, OpensAt: 6, At: 3}})
	cache.Observe("a", LineState{Epoch: 2, Revision: 1, Now: 6, PauseUntil: 40})
	require.Equal(t, []LineUpdate{{EventID: "a", Epoch: 2, PauseUntil: 40, Sale: OnSale}}, <-got)
	quiet := time.Now()
	require.Empty(t, <-got, "a beat when nothing changes")
	require.Equal(t, heartbeatInterval, time.Since(quiet))
	cancel()
	require.NoError(t, <-done)
}

func TestCachedStateExpires(t *testing.T) {
	t.Parallel()
	cache, clock := newTestCache()
	cache.Observe("ev", LineState{Epoch: 1, Revision: 1, Now: 100})
	clock.Advance(maxStateAge - time.Millisecond)
	s, ok := cache.findOrCreateEntry("ev").currentState(clock.Now())
	require.True(t, ok)
	require.Equal(t, 100+maxStateAge.Milliseconds()-1, s.Now, "its time goes on")
	clock.Advance(time.Millisecond)
	_, ok = cache.findOrCreateEntry("ev").currentState(clock.Now())
	require.False(t, ok)
}

// A replica accepts new states of a line even after Redis's clock was set back.
func TestCacheAcceptsStateAfterClockWentBack(t *testing.T) {
	t.Parallel()
	cache, _ := newTestCache()
	cache.Observe("ev", LineState{Epoch: 5, Revision: 7, Now: 10_000, Waiting: 1})
	cache.Observe("ev", LineState{Epoch: 5, Revision: 8, Now: 500, Waiting: 2})
	require.Equal(t, KnownState{Epoch: 5, Revision: 8, AnsweredAt: 500}, cache.Snapshot("ev"))
	cache.Observe("ev", LineState{Epoch: 5, Revision: 8, Now: 600, Waiting: 2})
	require.Equal(t, int64(600), cache.Snapshot("ev").AnsweredAt)
}
