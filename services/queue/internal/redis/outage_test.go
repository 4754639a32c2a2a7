package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func TestOurOwnOutageParksNobody(t *testing.T) {
	f := setup(t, 1)
	f.tick()
	f.advance(time.Hour) // an empty line is not ticked, and that is no outage: only one in 300 s would count
	in := f.join("in")
	users := f.crowd("u", 12)
	f.live(3*time.Second, append(users, "in")...)
	f.live(60 * time.Second) // the gateways are gone: workers tick, nobody polls
	f.release("in", in.SlotID)
	f.live(5 * time.Second)
	require.Empty(t, f.set("active"), "nothing is admitted")
	require.Empty(t, f.set("parked"), "nobody is parked")
	require.Equal(t, users, f.set("queue"))

	f.live(time.Second, "u-7") // the first to come back is not the first in line
	require.Equal(t, []string{"u-0"}, f.set("active"))
	f.live(14*time.Second, "u-7")
	require.Empty(t, f.set("parked"), "every age counts from then")
}

func TestMissingTicksParkNobody(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	users := f.crowd("u", 5)
	f.live(2*time.Second, append(users, "in")...)
	f.advance(time.Minute) // all workers were down
	f.release("in", in.SlotID)
	require.Equal(t, int64(1), f.tick().Admitted)
	require.Equal(t, []string{"u-0"}, f.set("active"))
	require.Empty(t, f.set("parked"))
}

func TestOurOwnOutageTakesNoUnclaimedSlotBack(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	users := f.crowd("u", 12)
	f.live(3*time.Second, append(users, "in")...)
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"u-0"}, f.set("unclaimed"))
	f.live(60 * time.Second)
	f.live(14*time.Second, "u-7")
	o := f.status("u-0")
	require.Equal(t, line.Inside, o.Standing)
	require.True(t, o.Claimed)
}
