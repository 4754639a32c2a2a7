package redis_test

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// A user without an entitlement who gives up the place in a presale, or loses it by absence, gets
// it back with the same position. Only an admission uses up a position.
func TestPositionOutlivesAdmissionsOfThePresale(t *testing.T) {
	f := presale(t, 1)
	joinAt := func(user string, position int64, entitled line.Entitlement) line.ClaimOutcome {
		return f.claim(line.PlaceClaim{UserID: user, Join: true, Entitled: entitled, Tier1: line.Tier1{Required: true, Round: f.round, Position: position}})
	}
	left, gone := joinAt("left", 10, line.NotEntitled), joinAt("gone", 11, line.NotEntitled)
	require.True(t, f.release("left", ""))
	require.Equal(t, line.Inside, joinAt("at once", 12, line.Entitled).State)
	require.Equal(t, line.Waiting, joinAt("by a tick", 13, line.Entitled).State)
	f.endSlots("at once")
	f.tick()
	f.endSlots("by a tick")
	require.Equal(t, []string{"at once", "by a tick"}, f.admitted())
	f.setPresale(line.Presale, f.clock().Add(-time.Minute), f.clock().Add(2*time.Hour))
	f.liveBy(5*time.Second, 605*time.Second, "at once")
	f.clean()
	require.Equal(t, []string{"gone"}, f.set("parked"))
	f.liveBy(5*time.Second, 3605*time.Second, "at once")
	f.clean()
	require.Empty(t, f.set("parked"))

	f.apply(line.Settings{Threshold: ptr(0)})
	require.Equal(t, left.Score, joinAt("left", 10, line.NotEntitled).Score)
	require.Equal(t, gone.Score, joinAt("gone", 11, line.EntitlementUnknown).Score)
	now := f.clock().UnixMicro()
	require.Equal(t, now, joinAt("at once", 12, line.Entitled).Score)
	require.Equal(t, now+1, joinAt("by a tick", 13, line.NotEntitled).Score, "withdrawn since")
	require.True(t, f.release("at once", ""))
	f.openSale("left", "gone", "by a tick")
	require.Equal(t, f.clock().UnixMicro(), joinAt("at once", 12, line.EntitlementUnknown).Score, "still one turn")
}

// A member who was admitted in the presale by arrival is not in front a second time with a position.
func TestAdmissionByArrivalInAPresaleIsATurn(t *testing.T) {
	f := presale(t, 1)
	require.Equal(t, line.Inside, f.joinAs("at once", line.Entitled).State)
	require.Equal(t, line.Waiting, f.joinAs("by a tick", line.Entitled).State)
	f.endSlots("at once")
	f.tick()
	f.endSlots("by a tick")
	require.Equal(t, []string{"at once", "by a tick"}, f.admitted())
	f.apply(line.Settings{Threshold: ptr(0)})
	require.Equal(t, line.Waiting, f.joinAs("other", line.Entitled).State)
	f.requireBehindAll("at once", 10)
	f.requireBehindAll("by a tick", 11)
	require.Equal(t, f.round+12, f.joinAt("other", 12).Score, "who only waits moves forward")
}

// A replica of an older release may put a user into both sets. Then the lower place is kept.
func TestWaiterInBothSetsKeepsTheLowerPlace(t *testing.T) {
	for name, repair := range map[string]func(f *fixture){
		"joins":       func(f *fixture) { f.joinAs("twice", line.Entitled) },
		"polls":       func(f *fixture) { f.status("twice") },
		"is entitled": func(f *fixture) { f.entitle("twice", true) },
	} {
		for _, lower := range []string{"queue", "entitled"} {
			t.Run(name+", lower in "+lower, func(t *testing.T) {
				f := presale(t, 0)
				score := f.joinAs("twice", line.Entitled).Score
				f.joinAs("other", line.Entitled)
				add := map[string]int64{"queue": -1000, "entitled": 1000}[lower]
				f.client.ZAdd(f.ctx(), f.key("queue"), goredis.Z{Score: float64(score + add), Member: "twice"})
				members, err := f.store.LookUp(f.ctx(), f.event, []line.MemberQuery{{UserID: "twice", TwoSets: true}})
				require.NoError(t, err)
				require.False(t, members[0].Found, "the script decides")
				repair(f)
				require.Empty(t, f.set("queue"))
				require.Equal(t, score+min(add, 0), f.score("entitled", "twice"))
				require.Equal(t, line.ClaimOutcome{State: line.Waiting, Score: score + min(add, 0), Entitled: true}, f.status("twice"))
			})
		}
	}
}
