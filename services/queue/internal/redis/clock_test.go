package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// The clock of Redis may be set back: by an operator, by a wrong time server, or by a failover to a
// server whose clock is behind.

func TestArrivalOrderAfterClockWentBack(t *testing.T) {
	f := setup(t, 0)
	f.join("a")
	f.advance(time.Second)
	f.joinAt("early", 1)
	f.advance(-time.Hour)
	f.join("b")
	f.advance(time.Second)
	f.join("c")
	require.Equal(t, []string{"early", "a", "b", "c"}, f.set("queue"))
}

func TestSettingsApplyAfterClockWentBack(t *testing.T) {
	f := setup(t, 5)
	f.advance(-time.Hour)
	require.True(t, f.apply(line.Settings{Threshold: ptr(3), Paused: true}).Paused)
	require.Equal(t, int64(3), f.peek().Threshold)
	require.False(t, f.apply(line.Settings{Threshold: ptr(4)}).Paused)
}

func TestRecoveryIsBoundedAfterClockWentBack(t *testing.T) {
	f := setup(t, 1)
	f.failover()
	f.peek()
	f.advance(-time.Hour)
	f.join("a")
	f.live(29*time.Second, "a")
	require.Empty(t, f.set("active"))
	f.live(2*time.Second, "a")
	require.Equal(t, []string{"a"}, f.set("active"))
}

func TestUnclaimedSlotEndsAfterClockWentBack(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("gone")
	f.advance(time.Millisecond)
	f.join("b")
	f.live(time.Second, "in", "gone", "b")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"gone"}, f.set("unclaimed"))
	f.advance(-time.Hour)
	f.live(33*time.Second, "b") // another recovery begins, since an earlier one may be unfinished
	require.Equal(t, line.Inside, f.status("b").State)
}
