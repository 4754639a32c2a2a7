package redis_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestTicksAdmitInOrder(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 250)
	f.advance(time.Second)
	f.poll(users...)
	limit := int64(230)
	f.apply(line.Settings{Threshold: &limit})
	require.Equal(t, int64(100), f.tick().Admitted)
	require.Zero(t, f.tick().Admitted, "the second's batch is used up")
	f.advance(time.Second)
	require.Equal(t, int64(100), f.tick().Admitted)
	f.advance(time.Second)
	require.Equal(t, int64(30), f.tick().Admitted, "up to the threshold")
	require.Equal(t, users[230:], f.set("queue"), "the first ones got in")
	require.ElementsMatch(t, users[:230], f.set("active"))
	st := f.peek()
	require.Equal(t, []int64{20, 230, 230}, []int64{st.Waiting, st.Active, st.Admitted})

	o := f.status("u-0")
	require.Equal(t, line.Inside, o.State)
	require.True(t, o.Claimed, "the holder hears of the slot now")
	require.False(t, f.status("u-0").Claimed)
}

// Many replicas, each with its own cache, tick and check at once. They exceed neither limit.
func TestReplicasKeepBatchAndThreshold(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 300)
	f.poll(users...)
	f.advance(time.Millisecond)
	limit := int64(150)
	f.apply(line.Settings{Threshold: &limit})

	race := func() (admitted, entered int64) {
		var ticked, in atomic.Int64
		var wg sync.WaitGroup
		var failures [8]error
		for r := range failures {
			wg.Go(func() {
				known := f.known
				for i := range 10 {
					_, did, err := f.store.Admit(f.ctx(), f.event, known)
					failures[r] = errors.Join(failures[r], err)
					ticked.Add(did.Admitted)
					_, out, err := f.store.Check(f.ctx(), f.event, known, []line.PlaceClaim{{UserID: fmt.Sprintf("n-%d-%d-%d", f.clock().Unix(), r, i), Join: true}})
					failures[r] = errors.Join(failures[r], err)
					if err == nil && out[0].State == line.Inside {
						in.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(failures[:]...))
		return ticked.Load(), in.Load()
	}
	first, entered := race()
	require.Equal(t, int64(100), first, "one batch in one second, whoever ticks")
	require.Zero(t, entered, "nobody jumps the line")
	f.known = line.KnownState{}
	f.advance(time.Second)
	second, _ := race()
	require.Equal(t, int64(50), second, "never above the threshold")
	require.Equal(t, int64(150), f.peek().Active)
	require.Equal(t, users[150:], f.set("queue")[:150])
}

func TestAbsentWaitersAreParkedAndReturn(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.advance(time.Millisecond)
	gone := f.join("gone")
	f.advance(time.Millisecond)
	f.join("b")
	f.advance(time.Millisecond)
	f.join("c")
	f.live(15*time.Second, "in", "b", "c")
	require.True(t, f.release("in", in.SlotID))
	f.live(time.Second, "b", "c")
	require.Equal(t, []string{"gone"}, f.set("parked"), "16 s without a sign")
	require.Equal(t, line.Inside, f.status("b").State, "the slot went to the next present one")

	back := f.status("gone")
	require.Equal(t, line.Waiting, back.State)
	require.Equal(t, gone.Score, back.Score)
	require.Equal(t, int64(0), back.Ahead, "before c")
	require.Empty(t, f.set("parked"))
	require.Empty(t, f.set("parked-seen"))
}

func TestReturningWaiterEntersFreeSlot(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("gone")
	f.live(16*time.Second, "in")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"gone"}, f.set("parked"))
	back := f.status("gone")
	require.Equal(t, line.Inside, back.State)
	require.True(t, back.Claimed)
}

func TestSlowPollersAreAbsentLater(t *testing.T) {
	f := setup(t, 0)
	f.join("far")
	f.join("near")
	far := float64(f.clock().UnixMilli()) + 60.0/128
	require.NoError(t, f.client.ZAdd(f.ctx(), f.key("seen"), goredis.Z{Score: far, Member: "far"}).Err())
	limit := int64(1)
	f.advance(124 * time.Second)
	f.tick() // resumes the line after a time without ticks
	f.advance(300 * time.Second)
	require.NoError(t, f.client.ZAdd(f.ctx(), f.key("seen"),
		goredis.Z{Score: float64(f.clock().Add(-124*time.Second).UnixMilli()) + 60.0/128, Member: "far"}).Err())
	f.apply(line.Settings{Threshold: &limit})
	require.NoError(t, f.client.HSet(f.ctx(), f.key("line"), "tickAt", f.clock().UnixMilli()).Err())
	require.Equal(t, int64(1), f.tick().Admitted)
	require.Equal(t, []string{"far"}, f.set("active"), "2 × 60 s + 5 s are not over")
}

func TestParkingReportsMore(t *testing.T) {
	f := setup(t, 0)
	f.joinAll("u", 601)
	f.live(20*time.Second, "u-600")
	limit := int64(5)
	f.apply(line.Settings{Threshold: &limit})
	first := f.tick()
	require.Equal(t, line.AdmissionResult{Parked: 500, More: true}, first)
	require.Equal(t, line.AdmissionResult{Parked: 100, Admitted: 1}, f.tick())
	require.Equal(t, []string{"u-600"}, f.set("active"))
}
