package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func TestUnclaimedSlotsAreReassigned(t *testing.T) {
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
	require.Equal(t, line.Inside, f.status("b").State)
	back := f.status("a")
	require.Equal(t, line.Waiting, back.State, "and gets the place back")
	require.Equal(t, int64(0), back.Ahead)
}

func TestSlowPollersMayClaimLater(t *testing.T) {
	f := setup(t, 0)
	f.join("a")
	f.live(time.Second, "a")
	f.advised("a", 30)
	f.apply(line.Settings{Threshold: ptr(1)})
	require.Equal(t, int64(1), f.tick().Admitted)
	f.live(64 * time.Second)
	require.Equal(t, []string{"a"}, f.set("unclaimed"), "2 × 30 s + 5 s are not over")
	f.live(2 * time.Second)
	require.Equal(t, []string{"a"}, f.set("parked"))
}

// A visitor who does not know of the admission yet can leave without an entry token.
func TestLeaveEndsUnclaimedSlot(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("a")
	f.live(time.Second, "in", "a")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"a"}, f.set("unclaimed"))
	require.True(t, f.release("a", ""))
	require.Equal(t, line.NotInLine, f.status("a").State)
	require.Zero(t, f.peek().Active)
	require.Empty(t, f.set("unclaimed"))
}

func TestSlotsEnd(t *testing.T) {
	for name, end := range map[string]func(f *fixture, slot string){
		"by leaving or a purchase": func(f *fixture, slot string) { require.True(f.t, f.release("in", slot)) },
		"by expiry":                func(f *fixture, _ string) { f.live(600*time.Second, "in", "next") },
		"by absence":               func(f *fixture, _ string) { f.live(121*time.Second, "next") },
		"with the sale":            func(f *fixture, _ string) { f.apply(line.Settings{ClosesAt: f.clock()}); f.live(61 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			in := f.join("in")
			f.join("next")
			f.live(time.Second, "in", "next")
			require.False(t, f.release("in", "another"), "only the slot that is named")
			require.Equal(t, []string{"in"}, f.set("active"))
			end(f, in.SlotID)
			require.NotEqual(t, line.Inside, f.status("in").State)
			require.NotContains(t, f.set("active"), "in")
			require.NotContains(t, f.set("active-seen"), "in")
			n, err := f.client.HExists(f.ctx(), f.key("slot"), "in").Result()
			require.NoError(t, err)
			require.False(t, n)
		})
	}
}

func TestEndOfSaleEndsSlots(t *testing.T) {
	f := setup(t, 3)
	f.join("gone")
	f.failover()
	f.join("w")
	f.live(31*time.Second, "w")
	require.Equal(t, [][]string{{"gone"}, {"w"}}, [][]string{f.set("old"), f.set("active")})
	require.Zero(t, f.apply(line.Settings{ClosesAt: f.clock()}).Active, "nobody is inside from then on")
	f.live(61 * time.Second)
	require.Empty(t, f.set("old"))
	require.Empty(t, f.set("active"))
}

func TestSlotsEndInPages(t *testing.T) {
	f := setup(t, 600)
	f.joinAll("u", 600)
	f.advance(600 * time.Second)
	require.True(t, f.tick().More)
	require.False(t, f.tick().More)
	require.Empty(t, f.set("active"))
}

// The stored end of a slot does not depend on the end of the sale, which is applied at each read,
// since the sale may be extended.
func TestExtendedSaleRestoresSlots(t *testing.T) {
	f := setup(t, 1)
	f.apply(line.Settings{Threshold: ptr(2), ClosesAt: f.clock().Add(100 * time.Second)})
	atOnce := f.join("a")
	f.apply(line.Settings{Threshold: ptr(0), ClosesAt: f.clock().Add(100 * time.Second)})
	f.join("b")
	f.advance(time.Second)
	f.apply(line.Settings{Threshold: ptr(2), ClosesAt: f.clock().Add(99 * time.Second)})
	require.Equal(t, int64(1), f.tick().Admitted)
	byTick := f.status("b")
	require.Equal(t, []int64{f.clock().Add(99 * time.Second).UnixMilli(), atOnce.End}, []int64{byTick.End, f.status("a").End})
	f.hold("b", byTick.SlotID, f.clock().Add(700*time.Second))

	f.advance(time.Second)
	f.apply(line.Settings{ClosesAt: f.clock().Add(time.Hour)})
	require.Equal(t, f.clock().Add(598*time.Second).UnixMilli(), f.status("a").End)
	require.Equal(t, f.clock().Add(699*time.Second).UnixMilli(), f.status("b").End)
}

func TestHoldKeepsSlotDuringAbsence(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.hold("in", in.SlotID, f.clock().Add(130*time.Second))
	f.live(129 * time.Second)
	require.Equal(t, []string{"in"}, f.set("active"))
	f.live(2 * time.Second)
	require.Empty(t, f.set("active"), "120 s without a sign, and nothing held any more")
}

// An update of the last contact does not restore a visitor who has been moved since the read.
func TestLastSeenUpdateRestoresNobody(t *testing.T) {
	f := setup(t, 1)
	require.NoError(t, f.store.UpdateLastSeen(f.ctx(), f.event, []line.LastSeenUpdate{{UserID: "gone", At: 5}, {UserID: "gone", Holder: true, At: 5}}))
	require.Empty(t, f.set("seen"))
	require.Empty(t, f.set("active-seen"))
}

func TestTheLongestHoldCounts(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.hold("in", in.SlotID, f.clock().Add(300*time.Second))
	f.hold("in", in.SlotID, f.clock().Add(50*time.Second))
	f.live(299 * time.Second)
	require.Equal(t, []string{"in"}, f.set("active"))
}

func TestManyHoldsDoNotHideAbsence(t *testing.T) {
	f := setup(t, 501)
	users := f.joinAll("u", 501)
	for _, u := range users[:500] {
		f.hold(u, f.status(u).SlotID, f.clock().Add(time.Hour))
	}
	f.live(121 * time.Second)
	require.Equal(t, users[:500], f.set("active"))
}

func TestHoldExtendsSlotOnce(t *testing.T) {
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

func TestShortHoldDoesNotUseExtension(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.hold("in", in.SlotID, f.clock().Add(300*time.Second))
	require.Equal(t, in.End, f.status("in").End)
	f.live(590*time.Second, "in")
	till := f.clock().Add(60 * time.Second)
	f.hold("in", in.SlotID, till)
	require.Equal(t, till.UnixMilli(), f.status("in").End)
}

// The Kafka event of a hold may arrive after the end of its slot. Then it does not extend the slot,
// since the next visitor may already have it.
func TestLateHoldRestoresNoSlot(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.advance(600 * time.Second)
	require.Equal(t, line.Inside, f.join("next").State, "entered at once, before the next tick")
	f.hold("in", in.SlotID, f.clock().Add(300*time.Second))
	require.Equal(t, int64(1), f.peek().Active)
	require.NotEqual(t, line.Inside, f.status("in").State)
}

func TestHoldEndsWithSale(t *testing.T) {
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
