package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// Beside an active waiting room only entitled users may join the line without a position. Others are
// sent to the room, unless the ticket service has not answered about them.
func TestEntitledNeedNoPosition(t *testing.T) {
	f := presale(t, 5)
	claim := func(user string, entitled line.Entitlement) line.ClaimOutcome {
		return f.claim(line.PlaceClaim{UserID: user, Join: true, Entitled: entitled, Tier1: line.Tier1{Required: true}})
	}
	ask := func(user string, entitled line.Entitlement) line.VisitorState {
		return claim(user, entitled).State
	}
	require.Equal(t, line.PassMissing, ask("n", line.NotEntitled))
	require.Equal(t, line.PassMissing, ask("n", line.NotEntitledBefore))
	require.Equal(t, line.AnswerMissing, ask("u", line.EntitlementUnknown))
	require.Equal(t, line.Inside, ask("e", line.Entitled))
	for _, entitled := range []line.Entitlement{line.EntitlementUnknown, line.NotEntitledBefore} {
		f.endSlots("e")
		require.Equal(t, line.Inside, ask("e", entitled), "the line knows it")
	}
	f.endSlots("e")
	require.Equal(t, line.Inside, ask("in", line.Entitled))
	require.Equal(t, line.PassMissing, ask("e", line.NotEntitled), "withdrawn since")
	f.apply(line.Settings{Threshold: ptr(0)})
	require.Equal(t, line.Waiting, ask("waits", line.Entitled))
	require.True(t, claim("waits", line.NotEntitledBefore).Entitled)
	f.openSale("in", "waits")
	require.Equal(t, line.PassMissing, ask("e2", line.Entitled), "the presale is over")
	require.Equal(t, line.PassMissing, ask("u", line.EntitlementUnknown))
	require.Equal(t, line.Waiting, ask("waits", line.EntitlementUnknown), "keeps the place")
	require.Equal(t, line.Inside, ask("in", line.EntitlementUnknown), "keeps the slot")
}

// An entitled user who joined without a position counts by that of the waiting room once it is served,
// if it is before the place that the user has; also after the general sale has opened.
func TestEntitledCountByTheLowerScore(t *testing.T) {
	for name, general := range map[string]bool{"in the presale": false, "in the general sale": true} {
		t.Run(name, func(t *testing.T) {
			f := presale(t, 0)
			f.joinAs("m", line.Entitled)
			f.advance(time.Second)
			f.joinAs("before", line.Entitled)
			arrived := f.joinAs("member", line.Entitled).Score
			f.advance(time.Second)
			f.joinAs("other", line.NotEntitled)
			all := []string{"m", "before", "member", "other", "late"}
			if general {
				f.openSale(all...)
			}
			use := func(user string, round, position int64) int64 {
				f.claim(line.PlaceClaim{UserID: user, Tier1: line.Tier1{Required: true, Round: round, Position: position}}) // a poll changes nothing
				return f.claim(line.PlaceClaim{UserID: user, Join: true, Tier1: line.Tier1{Required: true, Round: round, Position: position}}).Score
			}
			require.Equal(t, arrived, use("member", f.clock().UnixMicro(), 3), "a later round")
			require.Equal(t, f.round+5, use("member", f.round, 5))
			require.Equal(t, f.round+5, use("member", f.round, 5), "again")
			require.Equal(t, f.round+5, use("member", f.round, 9), "a higher one")
			require.Equal(t, f.round+5, f.joinAs("member", line.EntitlementUnknown).Score, "without it")
			before := f.score("entitled", "before")
			require.Equal(t, before, use("before", f.round, 5), "another user's")
			other := f.score("queue", "other")
			require.Equal(t, other, use("other", f.round, 2), "nobody else moves forward")

			f.apply(line.Settings{Threshold: ptr(2)})
			f.live(time.Second, all...)
			require.Equal(t, []string{"member", "m"}, f.admitted())
			require.Empty(t, admissiontest.FindOvertaken(f.admissions()))
			require.Equal(t, int64(2), f.peek().Waiting)
		})
	}
}

// A parked member returns by the lower score too.
func TestEntitledReturnByTheLowerScore(t *testing.T) {
	f := presale(t, 1)
	f.joinAs("in", line.Entitled)
	f.joinAs("member", line.Entitled)
	f.live(20*time.Second, "in")
	f.endSlots("in")
	f.tick()
	require.Equal(t, []string{"member"}, f.set("parked"))
	f.apply(line.Settings{Threshold: ptr(0)})
	require.Equal(t, f.round+4, f.joinAt("member", 4).Score)
}
