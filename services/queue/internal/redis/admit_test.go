package redis_test

import (
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

func TestTicksAdmitInOrderUpToBatchAndThreshold(t *testing.T) {
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
	require.Equal(t, line.Inside, o.Standing)
	require.True(t, o.Claimed, "the holder hears of the slot now")
	require.False(t, f.status("u-0").Claimed)
}

// Many replicas tick and check at once, each with a memory of its own.
func TestReplicasTogetherKeepBatchAndThreshold(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 300)
	f.poll(users...)
	f.advance(time.Millisecond)
	limit := int64(150)
	f.apply(line.Settings{Threshold: &limit})

	race := func() (admitted, entered int64) {
		var ticked, in atomic.Int64
		var wg sync.WaitGroup
		for r := range 8 {
			wg.Go(func() {
				mem := f.mem
				for i := range 10 {
					_, did, err := f.store.Admit(f.ctx(), f.event, mem)
					if err != nil {
						t.Error(err)
					}
					ticked.Add(did.Admitted)
					_, out, err := f.store.Check(f.ctx(), f.event, mem, []line.Claim{{UserID: fmt.Sprintf("n-%d-%d-%d", f.clock().Unix(), r, i), Join: true}})
					if err != nil {
						t.Error(err)
					} else if out[0].Standing == line.Inside {
						in.Add(1)
					}
				}
			})
		}
		wg.Wait()
		return ticked.Load(), in.Load()
	}
	first, entered := race()
	require.Equal(t, int64(100), first, "one batch in one second, whoever ticks")
	require.Zero(t, entered, "nobody jumps the line")
	f.mem = line.Memory{}
	f.advance(time.Second)
	second, _ := race()
	require.Equal(t, int64(50), second, "never above the threshold")
	require.Equal(t, int64(150), f.peek().Active)
	require.Equal(t, users[150:], f.set("queue")[:150])
}

func TestAbsentAtTheHeadAreParkedAndComeBackToTheirPlace(t *testing.T) {
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
	require.Equal(t, line.Inside, f.status("b").Standing, "the slot went to the next present one")

	back := f.status("gone")
	require.Equal(t, line.Waiting, back.Standing)
	require.Equal(t, gone.Score, back.Score)
	require.Equal(t, int64(0), back.Ahead, "before c")
	require.Empty(t, f.set("parked"))
	require.Empty(t, f.set("parked-seen"))
}

func TestOneWhoReturnsToAFreeSlotEntersAtOnce(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("gone")
	f.live(16*time.Second, "in")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"gone"}, f.set("parked"))
	back := f.status("gone")
	require.Equal(t, line.Inside, back.Standing)
	require.True(t, back.Claimed)
}

func TestWhoPollsSlowlyIsWaitedForLonger(t *testing.T) {
	f := setup(t, 0)
	f.join("far")
	f.join("near")
	far := float64(f.clock().UnixMilli()) + 60.0/128
	require.NoError(t, f.client.ZAdd(f.ctx(), f.key("seen"), goredis.Z{Score: far, Member: "far"}).Err())
	limit := int64(1)
	f.advance(124 * time.Second)
	f.tick() // resumes the line: nobody ticked it
	f.advance(300 * time.Second)
	require.NoError(t, f.client.ZAdd(f.ctx(), f.key("seen"),
		goredis.Z{Score: float64(f.clock().Add(-124*time.Second).UnixMilli()) + 60.0/128, Member: "far"}).Err())
	f.apply(line.Settings{Threshold: &limit})
	require.NoError(t, f.client.HSet(f.ctx(), f.key("line"), "tickAt", f.clock().UnixMilli()).Err())
	require.Equal(t, int64(1), f.tick().Admitted)
	require.Equal(t, []string{"far"}, f.set("active"), "2 × 60 s + 5 s are not over")
}

func TestUnclaimedSlotsGoToTheNext(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("a")
	f.advance(time.Millisecond)
	f.join("b")
	f.live(time.Second, "in", "a", "b")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"a"}, f.set("unclaimed"))
	f.live(14*time.Second, "b")
	require.Equal(t, []string{"a"}, f.set("active"))
	f.live(2*time.Second, "b")
	require.Equal(t, []string{"a"}, f.set("parked"))
	require.Equal(t, line.Inside, f.status("b").Standing)
	back := f.status("a")
	require.Equal(t, line.Waiting, back.Standing, "and gets the place back")
	require.Equal(t, int64(0), back.Ahead)
}

func TestSlotsEnd(t *testing.T) {
	for name, end := range map[string]func(f *fixture, slot string){
		"by leaving or a purchase": func(f *fixture, slot string) { require.True(f.t, f.release("in", slot)) },
		"by expiry":                func(f *fixture, _ string) { f.live(600*time.Second, "in", "next") },
		"by absence":               func(f *fixture, _ string) { f.live(121*time.Second, "next") },
		"with the sale":            func(f *fixture, _ string) { f.apply(line.Settings{ClosesAt: f.clock().Add(-time.Second)}); f.tick() },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			in := f.join("in")
			f.join("next")
			f.live(time.Second, "in", "next")
			require.False(t, f.release("in", "another"), "only the slot that is named")
			require.Equal(t, []string{"in"}, f.set("active"))
			end(f, in.SlotID)
			require.NotEqual(t, line.Inside, f.status("in").Standing)
			require.NotContains(t, f.set("active"), "in")
			require.NotContains(t, f.set("active-seen"), "in")
			n, err := f.client.HExists(f.ctx(), f.key("slot"), "in").Result()
			require.NoError(t, err)
			require.False(t, n)
		})
	}
}

func TestAHoldExtendsTheSlotOnceAndExcusesAbsence(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.live(590*time.Second, "in")
	require.False(t, f.hold("in", "another", f.clock().Add(time.Hour)))
	first := f.clock().Add(300 * time.Second)
	require.True(t, f.hold("in", in.SlotID, first))
	require.Equal(t, first.UnixMilli(), f.status("in").End)
	f.hold("in", in.SlotID, first.Add(time.Minute))
	require.Equal(t, first.UnixMilli(), f.status("in").End, "once")
	f.live(200 * time.Second)
	require.Equal(t, []string{"in"}, f.set("active"), "away at the payment provider")
	f.live(101 * time.Second)
	require.Empty(t, f.set("active"))
}

func TestAHoldThatEndsBeforeTheSlotUsesNothingUp(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.hold("in", in.SlotID, f.clock().Add(300*time.Second))
	require.Equal(t, in.End, f.status("in").End)
	f.live(590*time.Second, "in")
	till := f.clock().Add(60 * time.Second)
	f.hold("in", in.SlotID, till)
	require.Equal(t, till.UnixMilli(), f.status("in").End)
}

// The event of a hold may come after the slot's end: what was given to the next meanwhile is not there twice.
func TestALateHoldRevivesNoSlot(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.advance(600 * time.Second)
	require.Equal(t, line.Inside, f.join("next").Standing, "entered at once, before the next tick")
	f.hold("in", in.SlotID, f.clock().Add(300*time.Second))
	require.Equal(t, int64(1), f.peek().Active)
	require.NotEqual(t, line.Inside, f.status("in").Standing)
}

func TestAHoldDoesNotOutliveTheSale(t *testing.T) {
	f := setup(t, 1)
	closes := f.clock().Add(620 * time.Second)
	f.apply(line.Settings{ClosesAt: closes})
	in := f.join("in")
	f.hold("in", in.SlotID, f.clock().Add(900*time.Second))
	require.Equal(t, closes.UnixMilli(), f.status("in").End)
}

func TestLoweringTheThresholdEvictsNobody(t *testing.T) {
	f := setup(t, 3)
	var slots []string
	for _, u := range []string{"a", "b", "c"} {
		slots = append(slots, f.join(u).SlotID)
	}
	f.join("w")
	one := int64(1)
	f.advance(time.Second)
	f.apply(line.Settings{Threshold: &one})
	f.live(5*time.Second, "a", "b", "c", "w")
	require.Equal(t, int64(3), f.peek().Active)
	f.release("a", slots[0])
	f.release("b", slots[1])
	f.live(2*time.Second, "c", "w")
	require.Equal(t, []string{"w"}, f.set("queue"))
	f.release("c", slots[2])
	f.live(time.Second, "w")
	require.Equal(t, []string{"w"}, f.set("active"))
}

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

func TestParkingGoesOnAtOnceWhileThereIsMore(t *testing.T) {
	f := setup(t, 0)
	claims := make([]line.Claim, 601)
	for i := range claims {
		claims[i] = line.Claim{UserID: fmt.Sprintf("u-%03d", i), Join: true}
	}
	s, _, err := f.store.Check(f.ctx(), f.event, f.mem, claims)
	f.learn(s, err)
	f.live(20*time.Second, "u-600")
	limit := int64(5)
	f.apply(line.Settings{Threshold: &limit})
	first := f.tick()
	require.Equal(t, line.Tick{Parked: 500, More: true}, first)
	require.Equal(t, line.Tick{Parked: 100, Admitted: 1}, f.tick())
	require.Equal(t, []string{"u-600"}, f.set("active"))
}

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
