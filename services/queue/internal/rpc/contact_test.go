package rpc_test

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Most polls only read, but some must store the contact: otherwise a polling visitor would count as
// absent.
func TestPollsCountAsContact(t *testing.T) {
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

// A visitor who falls back in the line is to poll less often. The line stores the longer interval
// at once.
func TestLongerPollIntervalIsStoredAtOnce(t *testing.T) {
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
	stored, err := f.client.ZScore(f.ctx(), f.key("seen"), "w").Result()
	require.NoError(t, err)
	require.InDelta(t, float64(f.clock().UnixMilli())+5.0/128, stored, 0)
}

// A page whose visitor is admitted again may still send the token of the slot that was left.
func TestTokenOfEarlierSlotClaimsNewSlot(t *testing.T) {
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
	require.Zero(t, n, "an unclaimed slot would be given to another visitor")
	require.Equal(t, []string{"a", "b", "a"}, f.announced.users())
}
