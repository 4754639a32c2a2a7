package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCancelledHoldDoesNotKeepSlot(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.hold("in", in.SlotID, f.clock().Add(300*time.Second))
	f.live(time.Second)
	require.True(t, f.hold("in", in.SlotID, time.Time{}))
	require.True(t, f.hold("in", in.SlotID, time.Time{}), "the event again")
	f.live(118 * time.Second)
	require.Equal(t, []string{"in"}, f.set("active"))
	f.live(2 * time.Second)
	require.Empty(t, f.set("active"))
	n, err := f.client.HLen(f.ctx(), f.key("holds")).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestSecondHoldKeepsSlot(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.holdFor("long", "in", in.SlotID, f.clock().Add(300*time.Second))
	f.holdFor("short", "in", in.SlotID, f.clock().Add(200*time.Second))
	require.True(t, f.holdFor("long", "in", in.SlotID, time.Time{}))
	f.live(199 * time.Second)
	require.Equal(t, []string{"in"}, f.set("active"), "the shorter one lives")
	f.live(2 * time.Second)
	require.Empty(t, f.set("active"))
}
