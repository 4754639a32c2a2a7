package rpc_test

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Polls are plain reads; now and then one of them has to leave a mark, or who waits patiently would
// count as absent.
func TestWhoPollsIsPresent(t *testing.T) {
	f := setup(t)
	f.open(1)
	in, _ := f.enter("in")
	f.check(f.item("w"))
	for range 20 {
		f.tick()
		require.Equal(t, "queued", f.status(f.item("w")).GetPlace().GetStatus())
		f.heartbeat(in)
	}
	f.leave("in", in.GetEntry())
	f.tick()
	require.Equal(t, "active", f.status(f.item("w")).GetPlace().GetStatus())
}

// Who falls back polls less often, and the line must know that before the longer silence begins.
func TestALongerPollIsNotedAtOnce(t *testing.T) {
	f := setup(t)
	f.open(0)
	f.check(f.item("w"))
	ahead := make([]goredis.Z, 1000)
	for i := range ahead {
		ahead[i] = goredis.Z{Score: float64(i + 1), Member: i}
	}
	require.NoError(t, f.client.ZAdd(f.ctx(), f.key("queue"), ahead...).Err())
	f.advance(time.Second)
	require.Equal(t, int64(1000), f.status(f.item("w")).GetPlace().GetPeopleAhead())
	noted, err := f.client.ZScore(f.ctx(), f.key("seen"), "w").Result()
	require.NoError(t, err)
	require.InDelta(t, float64(f.clock().UnixMilli())+5.0/128, noted, 0)
}

// A page may still hold the token of a slot that it left, when it is admitted again.
func TestATokenOfAnEarlierSlotClaimsTheNewOne(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	f.leave("a", a.GetEntry())
	b, _ := f.enter("b")
	require.Equal(t, "queued", f.check(a).GetPlace().GetStatus())
	f.leave("b", b.GetEntry())
	f.tick()
	p := f.status(a).GetPlace()
	require.Equal(t, "active", p.GetStatus())
	require.NotEqual(t, a.GetEntry().GetSlotId(), f.claims(p.GetEntryToken()).GetSlotId())
	n, err := f.client.ZCard(f.ctx(), f.key("unclaimed")).Result()
	require.NoError(t, err)
	require.Zero(t, n, "else it would be taken back")
	require.Equal(t, []string{"a", "b", "a"}, f.told.users())
}
