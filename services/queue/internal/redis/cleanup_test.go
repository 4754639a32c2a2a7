package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func TestCleanup(t *testing.T) {
	f := setup(t, 0)
	f.join("a")
	f.join("b")
	f.liveBy(5*time.Second, 605*time.Second, "b")
	require.Equal(t, int64(1), f.clean())
	require.Equal(t, []string{"a"}, f.set("parked"))
	require.Equal(t, []string{"b"}, f.set("seen"))
	f.liveBy(5*time.Second, 3000*time.Second, "b")
	require.Equal(t, int64(1), f.clean())
	require.Empty(t, f.set("parked"))
	require.Empty(t, f.set("parked-seen"))
	require.Equal(t, line.NotInLine, f.status("a").State)
}

func TestCleanupReportsMore(t *testing.T) {
	f := setup(t, 0)
	f.joinAll("u", 1002)
	f.live(601*time.Second, "u-000")
	last := f.clock().Add(-601 * time.Second).UnixMilli()
	clean := func() (int64, bool) {
		_, moved, more, err := f.store.Clean(f.ctx(), f.event, f.known)
		require.NoError(t, err)
		return moved, more
	}
	for _, set := range []string{"seen", "parked-seen"} {
		moved, more := clean()
		require.Equal(t, int64(1000), moved, set)
		require.True(t, more, set)
		moved, more = clean()
		require.Equal(t, int64(1), moved, set)
		require.False(t, more, set)
		parked, err := f.client.ZRangeWithScores(f.ctx(), f.key("parked-seen"), 0, -1).Result()
		require.NoError(t, err)
		for i := range parked {
			require.Equal(t, last, int64(parked[i].Score), "parked since the last contact")
			parked[i].Score = float64(f.clock().Add(-time.Hour).UnixMilli())
		}
		if len(parked) > 0 {
			require.NoError(t, f.client.ZAdd(f.ctx(), f.key("parked-seen"), parked...).Err())
		}
	}
	require.Equal(t, []string{"u-000"}, f.set("queue"))
	require.Empty(t, f.set("parked"))
	require.Empty(t, f.set("parked-seen"))
}

func TestOutageKeepsParkedPlaces(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("gone")
	f.live(16*time.Second, "in")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"gone"}, f.set("parked"))
	f.advance(2 * time.Hour) // nobody can have returned
	f.tick()
	require.Zero(t, f.clean())
	require.Equal(t, line.Inside, f.status("gone").State)
}

func TestNonEmptyLineHasNoTTL(t *testing.T) {
	for name, keep := range map[string]func(f *fixture){
		"waiting": func(f *fixture) { f.apply(line.Settings{Threshold: ptr(0)}); f.join("a") },
		"inside":  func(f *fixture) { f.join("a") },
		"of the last epoch": func(f *fixture) {
			f.join("a")
			f.failover()
			f.peek()
			require.Equal(f.t, []string{"a"}, f.set("old"))
		},
		"parked": func(f *fixture) {
			f.apply(line.Settings{Threshold: ptr(0)})
			f.join("a")
			f.live(16 * time.Second)
			f.apply(line.Settings{})
			f.tick()
			require.Equal(f.t, []string{"a"}, f.set("parked"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := unopened(t)
			f.join("x")
			f.advance(31 * time.Second)
			f.apply(line.Settings{})
			f.release("x", "")
			f.clean()
			keep(f)
			f.clean()
			left, err := f.client.PTTL(f.ctx(), f.key("line")).Result()
			require.NoError(t, err)
			require.Equal(t, time.Duration(-1), left)
		})
	}
}

func TestCleanupWaitsWhileTheLineIsSilent(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 12)
	f.live(3*time.Second, users...)
	f.liveBy(5*time.Second, 700*time.Second)
	require.Zero(t, f.clean())
	require.Len(t, f.set("queue"), 12)
	f.liveBy(5*time.Second, 3000*time.Second)
	f.clean()
	require.Empty(t, f.set("queue"), "a crowd that left for good")
	require.Empty(t, f.set("parked"))
}

func TestEmptyLineExpires(t *testing.T) {
	f := unopened(t)
	f.join("a")
	ttl := func() time.Duration {
		d, err := f.client.PTTL(f.ctx(), f.key("line")).Result()
		require.NoError(t, err)
		return d
	}
	f.clean()
	require.Equal(t, time.Duration(-1), ttl(), "somebody waits")
	f.release("a", "")
	f.clean()
	require.Greater(t, ttl(), 23*time.Hour)
	f.join("a")
	require.Equal(t, time.Duration(-1), ttl(), "at once: the line may have been about to end")
	f.clean()
	require.Equal(t, time.Duration(-1), ttl())

	f.release("a", "")
	f.apply(line.Settings{ClosesAt: f.clock().Add(100 * time.Hour)})
	f.clean()
	require.Greater(t, ttl(), 123*time.Hour, "a sale's line waits for its opening")
}

func TestCleanupWaitsForTicks(t *testing.T) {
	f := setup(t, 0)
	f.crowd("u", 3)
	f.live(2*time.Second, "u-0")
	f.advance(700 * time.Second)
	require.Zero(t, f.clean(), "the workers were down, and the gateways perhaps too")
}

func TestCleanupAgesRestartAfterOutage(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 12)
	f.live(3*time.Second, users...)
	f.liveBy(5*time.Second, 700*time.Second)
	f.live(time.Second, "u-5")
	require.Zero(t, f.clean())
	require.Len(t, f.set("queue"), 12)
}
