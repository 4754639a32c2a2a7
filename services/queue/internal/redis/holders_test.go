package redis_test

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func TestFailoverMovesHoldersAndUnclaimed(t *testing.T) {
	f := setup(t, 3)
	a, b := f.join("a"), f.join("b")
	c := f.join("c")
	d := f.join("d")
	f.live(time.Second, "a", "b", "c", "d")
	f.release("c", c.SlotID)
	f.tick() // admits d, who does not learn of it
	require.Equal(t, []string{"d"}, f.set("unclaimed"))
	epoch := f.known.Epoch
	f.advance(time.Second)
	f.failover()
	f.join("e")
	require.Greater(t, f.known.Epoch, epoch)
	require.Equal(t, []string{"d", "e"}, f.set("queue"), "d waits again, with the old score")
	require.Equal(t, d.Score, f.status("d").Score)
	require.ElementsMatch(t, []string{"a", "b"}, f.set("old"))
	require.Empty(t, f.set("unclaimed"))
	slots, err := f.client.HKeys(f.ctx(), f.key("slot")).Result()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b"}, slots)

	back := f.status("a")
	require.Equal(t, line.Inside, back.State)
	require.Equal(t, a.SlotID, back.SlotID)
	require.Equal(t, a.End, back.End)
	f.live(29*time.Second, "a", "d", "e")
	require.Equal(t, []string{"a"}, f.set("active"), "nobody is admitted in the pause")
	f.live(2*time.Second, "a", "d", "e")
	require.ElementsMatch(t, []string{"a", "d"}, f.set("active"), "b's slot is kept for b")
	require.Equal(t, b.SlotID, f.status("b").SlotID, "after the pause too")
	require.Empty(t, f.set("old"))
	require.Equal(t, []string{"e"}, f.set("queue"))
}

func TestHoldersWithoutContactLoseSlots(t *testing.T) {
	f := setup(t, 1)
	a := f.join("a")
	f.join("w")
	// A hold of seats keeps the slot of an absent holder, but not in an epoch that has ended.
	f.hold("a", a.SlotID, f.clock().Add(time.Hour))
	f.live(time.Second, "a", "w")
	f.failover()
	f.live(120*time.Second, "w")
	require.Equal(t, []string{"a"}, f.set("old"))
	f.live(2*time.Second, "w")
	require.Empty(t, f.set("old"))
	require.Equal(t, []string{"w"}, f.set("active"))
	require.Equal(t, line.NotInLine, f.status("a").State)
}

func TestSlotOfPreviousEpochKeepsItsEnd(t *testing.T) {
	f := setup(t, 1)
	f.join("a")
	f.live(590*time.Second, "a")
	f.failover()
	f.live(9*time.Second, "w")
	require.Equal(t, []string{"a"}, f.set("old"))
	f.live(time.Second, "w")
	require.Empty(t, f.set("old"))
}

func TestLostSlotsAreAdoptedOnceDuringRecovery(t *testing.T) {
	f := setup(t, 2)
	a, b := f.join("a"), f.join("b")
	f.release("b", b.SlotID)
	c := f.join("c")
	tokens := map[string]*line.EntryClaims{"a": f.entry(a), "b": f.entry(b), "c": f.entry(c)}
	f.advance(5 * time.Second)
	f.wipe()
	back := f.claim(line.PlaceClaim{UserID: "a", Entry: tokens["a"]})
	require.Equal(t, line.Inside, back.State)
	require.Equal(t, a.SlotID, back.SlotID)
	require.Equal(t, a.End, back.End)
	require.True(t, f.release("a", a.SlotID))
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Entry: tokens["a"]}).State, "once per slot")

	f.live(31 * time.Second)
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "c", Entry: tokens["c"]}).State, "the pause is over")
}

// If a purchase or a leave ends a lost slot before its token restores it, the slot is not restored.
func TestSlotEndedWhileLostIsNotAdopted(t *testing.T) {
	f := setup(t, 2)
	a, b := f.join("a"), f.join("b")
	tokens := map[string]*line.EntryClaims{"a": f.entry(a), "b": f.entry(b)}
	f.wipe()
	f.peek()
	require.False(t, f.release("a", a.SlotID))
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Entry: tokens["a"]}).State)
	require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "b", Entry: tokens["b"]}).State)
}

func TestAdoptionNeverExceedsTheThreshold(t *testing.T) {
	f := setup(t, 2)
	tokens := map[string]*line.EntryClaims{}
	for _, u := range []string{"a", "b"} {
		tokens[u] = f.entry(f.join(u))
	}
	one := int64(1)
	f.advance(time.Second)
	f.apply(line.Settings{Threshold: &one})
	f.wipe()
	require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "a", Entry: tokens["a"]}).State)
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "b", Entry: tokens["b"]}).State)
	require.True(t, f.release("a", tokens["a"].SlotID))
	require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "b", Entry: tokens["b"]}).State, "there is room again")
}

func TestTokensFromBeforeSurvivingDataAreNotAdopted(t *testing.T) {
	f := setup(t, 2)
	left := f.join("left")
	token := f.entry(left)
	f.release("left", left.SlotID)
	f.advance(20 * time.Second)
	f.join("a")
	f.failover() // nothing was lost
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "left", Entry: token}).State)
}

func TestNewcomersDoNotTakeOldHoldersSlots(t *testing.T) {
	f := setup(t, 1)
	f.join("a")
	f.failover()
	f.live(31 * time.Second)
	require.False(t, f.peek().Recovering())
	require.Equal(t, line.Waiting, f.join("n").State)
	require.Equal(t, line.Inside, f.status("a").State)
}

func TestLeftSlotIsNotAdoptedAgain(t *testing.T) {
	f := setup(t, 1)
	a := f.join("a")
	token := f.entry(a)
	f.failover()
	require.Equal(t, a.SlotID, f.claim(line.PlaceClaim{UserID: "a", Entry: token}).SlotID)
	require.True(t, f.release("a", a.SlotID))
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Entry: token}).State)
	ttl, err := f.client.PTTL(f.ctx(), f.key("restored")).Result()
	require.NoError(t, err)
	require.Positive(t, ttl)
}

func TestTakeoverNeverExceedsTheThreshold(t *testing.T) {
	f := setup(t, 2)
	f.join("a")
	f.join("b")
	one := int64(1)
	f.advance(time.Second)
	f.apply(line.Settings{Threshold: &one})
	f.failover()
	require.Equal(t, line.Inside, f.status("a").State)
	require.Equal(t, line.NotInLine, f.status("b").State)
	require.Empty(t, f.set("old"))
}

func TestTokensOfOlderEpochsAreNotAdopted(t *testing.T) {
	f := setup(t, 1)
	a := f.join("a")
	token := f.entry(a)
	f.release("a", a.SlotID)
	f.failover()
	f.peek()
	last := f.entry(a)
	f.failover()
	f.peek()
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Entry: token}).State)
	require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "a", Entry: last}).State, "those of the last one are")
}

func TestHoldExtendsSlotOfPreviousEpoch(t *testing.T) {
	f := setup(t, 1)
	a := f.join("a")
	f.live(590*time.Second, "a")
	f.failover()
	f.peek()
	till := f.clock().Add(100 * time.Second)
	require.True(t, f.hold("a", a.SlotID, till))
	f.live(20*time.Second, "w")
	require.Equal(t, till.UnixMilli(), f.status("a").End)
}

func TestEndedSlotIsNotTakenOver(t *testing.T) {
	f := setup(t, 1)
	f.join("a")
	f.failover()
	f.peek()
	f.advance(600 * time.Second)
	require.Equal(t, line.NotInLine, f.status("a").State, "before any tick")
}

func TestTokensThatAreNotAdopted(t *testing.T) {
	f := setup(t, 1)
	a := f.join("a")
	ended := f.entry(a)
	ended.End = f.clock().UnixMilli()
	remembers := f.known
	f.wipe()
	f.peek()
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Entry: ended}).State, "the slot is over")

	// A replica without a cached state opens the line anew. A visitor leaves. Then another replica
	// reports that the line had been lost.
	f.advance(time.Second)
	f.wipe()
	f.known = line.KnownState{}
	f.open()
	f.apply(line.Settings{Threshold: ptr(1)})
	b := f.join("b")
	require.Equal(t, line.Inside, b.State)
	left := f.entry(b)
	f.release("b", b.SlotID)
	f.known = remembers
	require.True(t, f.peek().Recovering())
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "b", Entry: left}).State, "of this epoch: the line knows that they left")
}

// A visitor who joined without the entry token and sends it later is only inside, not in the queue
// too.
func TestAdoptedHolderLeavesQueue(t *testing.T) {
	for name, set := range map[string]string{"waiting": "queue", "parked": "parked"} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			token := f.entry(f.join("a"))
			f.wipe()
			require.Equal(t, line.Waiting, f.join("a").State)
			if set == "parked" {
				score := float64(f.score("queue", "a"))
				require.NoError(t, f.client.Del(f.ctx(), f.key("queue"), f.key("seen")).Err())
				require.NoError(t, f.client.ZAdd(f.ctx(), f.key("parked"), goredis.Z{Score: score, Member: "a"}).Err())
				require.NoError(t, f.client.ZAdd(f.ctx(), f.key("parked-seen"), goredis.Z{Score: 1, Member: "a"}).Err())
			}
			require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "a", Entry: token}).State)
			for _, name := range []string{"queue", "seen", "parked", "parked-seen"} {
				require.Empty(t, f.set(name), name)
			}
		})
	}
}

func TestHoldersAfterTwoLosses(t *testing.T) {
	f := setup(t, 2)
	f.join("a")
	f.join("b")
	f.failover()
	f.poll("a")
	require.Equal(t, []string{"b"}, f.set("old"))
	f.failover()
	f.peek()
	require.ElementsMatch(t, []string{"a", "b"}, f.set("old"))
}

func TestTokensOfOlderEpochsAreNotAdoptedAfterWipe(t *testing.T) {
	f := setup(t, 1)
	a := f.join("a")
	token := f.entry(a)
	f.failover()
	f.peek()
	last := f.entry(a)
	f.wipe()
	f.peek()
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Entry: token}).State)
	require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "a", Entry: last}).State)
}

// Decisions made shortly before the last write that is left may be lost too.
func TestTokensWithinSlackAreAdopted(t *testing.T) {
	f := setup(t, 2)
	a := f.join("a")
	f.advance(4 * time.Second)
	f.join("w")
	for _, name := range []string{"active", "active-seen"} {
		require.NoError(t, f.client.ZRem(f.ctx(), f.key(name), "a").Err())
	}
	require.NoError(t, f.client.HDel(f.ctx(), f.key("slot"), "a").Err())
	token := f.entry(a)
	f.failover()
	require.Equal(t, a.SlotID, f.claim(line.PlaceClaim{UserID: "a", Entry: token}).SlotID)
}
