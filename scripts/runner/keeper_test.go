package runner

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestBackoffResetsAfterAStableRun(t *testing.T) {
	t.Parallel()
	var b backoff
	var waits []time.Duration
	for range 8 {
		waits = append(waits, b.nextDelay(time.Second))
	}
	const ms = time.Millisecond
	require.Empty(t, cmp.Diff([]time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 10000 * ms, 10000 * ms}, waits))
	require.Equal(t, 200*ms, b.nextDelay(31*time.Second))
	require.Equal(t, 400*ms, b.nextDelay(30*time.Second))
}

// fakeBackend dies after a given lifetime. If the lifetime is 0, its restart fails.
type fakeBackend struct {
	born, dies time.Time
	dead       bool
	stopped    atomic.Bool
	lives      []time.Duration // the lifetime after each restart; 0: the restart fails
	revived    []time.Duration // times of the restarts, since the start of the test
	testStart  time.Time
}

func (m *fakeBackend) Died(string) (time.Time, bool) {
	return m.born, !m.stopped.Load() && (m.dead || !time.Now().Before(m.dies))
}

func (m *fakeBackend) Revive(context.Context, string) (bool, error) {
	if m.stopped.Load() {
		return false, nil
	}
	m.revived = append(m.revived, time.Since(m.testStart))
	next := m.lives[0]
	m.lives = m.lives[1:]
	m.born, m.dies = time.Now(), time.Now().Add(next)
	if m.dead = next == 0; m.dead {
		return false, errors.New("its port is taken")
	}
	return true, nil
}

func TestDeadBackendIsRevivedRepeatedly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		const steady, never = time.Minute, 24 * time.Hour
		m := &fakeBackend{born: start, dies: start.Add(steady), testStart: start, lives: []time.Duration{0, 0, steady, never}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k := &restarter{name: "redis", backends: m, log: slog.New(slog.DiscardHandler)}
			k.run(ctx)
		}()
		time.Sleep(time.Hour) // in fake time
		cancel()
		<-done
		const ms = time.Millisecond
		want := []time.Duration{
			steady + 200*ms,             // it ran for a while
			steady + 600*ms,             // the restart failed
			steady + 1400*ms,            // the restart failed again
			2*steady + 1400*ms + 200*ms, // it ran for a while again; 200 ms more pass until the next poll
		}
		require.Len(t, m.revived, len(want))
		for i, at := range m.revived {
			require.GreaterOrEqual(t, at, want[i])
			require.Less(t, at, want[i]+pollInterval)
		}
	})
}

func TestStoppedDeadBackendStaysStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &fakeBackend{born: time.Now(), dies: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k := &restarter{name: "redis", backends: m, log: slog.New(slog.DiscardHandler)}
			k.run(ctx)
		}()
		synctest.Wait() // until the restarter waits before the first restart
		m.stopped.Store(true)
		time.Sleep(time.Hour)
		cancel()
		<-done
		require.Empty(t, m.revived)
	})
}
