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
	for range 605 {
		f.advance(time.Second)
		f.poll("b")
		f.tick()
	}
	require.Equal(t, int64(1), f.clean())
	require.Equal(t, []string{"a"}, f.set("parked"))
	require.Equal(t, []string{"b"}, f.set("seen"))
	for range 1000 {
		f.advance(3 * time.Second)
		f.poll("b")
		f.tick()
	}
	require.Equal(t, int64(1), f.clean())
	require.Empty(t, f.set("parked"))
	require.Equal(t, line.Nowhere, f.status("a").Standing)
}

func TestCleanupWaitsWhileTheLineIsSilent(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 12)
	f.live(3*time.Second, users...)
	for range 140 {
		f.advance(5 * time.Second)
		f.tick()
	}
	require.Zero(t, f.clean())
	require.Len(t, f.set("queue"), 12)
	for range 600 {
		f.advance(5 * time.Second)
		f.tick()
	}
	f.clean()
	require.Empty(t, f.set("queue"), "a crowd that left for good")
	require.Empty(t, f.set("parked"))
}

func TestAnEmptyLineEnds(t *testing.T) {
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
	f.open()
	f.clean()
	require.Equal(t, time.Duration(-1), ttl(), "a sale's line waits for its opening")
	f.apply(line.Settings{ClosesAt: f.clock().Add(100 * time.Hour)})
	f.clean()
	require.Greater(t, ttl(), 123*time.Hour)
}

func TestCleanupWaitsForTicks(t *testing.T) {
	f := setup(t, 0)
	f.crowd("u", 3)
	f.live(2*time.Second, "u-0")
	f.advance(700 * time.Second)
	require.Zero(t, f.clean(), "the workers were down, and the gateways perhaps too")
}

func TestCleanupCountsFromTheEndOfAnOutage(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 12)
	f.live(3*time.Second, users...)
	for range 140 {
		f.advance(5 * time.Second)
		f.tick()
	}
	f.live(time.Second, "u-5")
	require.Zero(t, f.clean())
	require.Len(t, f.set("queue"), 12)
}
