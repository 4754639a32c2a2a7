package redis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// setPresale sets this replica's report on a sale with a presale. The next call passes it on.
func (f *fixture) setPresale(status line.SaleStatus, presale, opens time.Time) {
	f.t.Helper()
	f.setSale(status, opens)
	f.known.Sale.PresaleOpensAt = presale.UnixMilli()
}

// presale returns an open line whose presale lasts for another hour.
func presale(t *testing.T, threshold int64) *fixture {
	t.Helper()
	f := setup(t, threshold)
	f.setPresale(line.Presale, f.clock().Add(-time.Minute), f.clock().Add(time.Hour))
	return f
}

// openSale sets the time to the opening of the general sale, without causing an outage.
func (f *fixture) openSale(users ...string) {
	f.t.Helper()
	f.time.Set(time.UnixMilli(f.known.Sale.OpensAt).Add(-2 * time.Second))
	f.ask()
	f.live(2*time.Second, users...)
}

// joinAs adds a user about whom the ticket service has given this answer.
func (f *fixture) joinAs(user string, entitled line.Entitlement) line.ClaimOutcome {
	f.t.Helper()
	return f.claim(line.PlaceClaim{UserID: user, Join: true, Entitled: entitled})
}

func (f *fixture) entitle(user string, entitled bool) {
	f.t.Helper()
	f.observe(f.store.Entitle(f.ctx(), f.event, f.known, []line.EntitlementAnswer{{UserID: user, Entitled: entitled}}))
}

// mixedCrowd makes n users join a millisecond apart. One third has an entitlement, one third has
// none, and about one third the ticket service has not answered.
func (f *fixture) mixedCrowd(n int) (all, entitled, others []string) {
	f.t.Helper()
	for i := range n {
		user := fmt.Sprintf("u-%02d", i)
		f.advance(time.Millisecond)
		f.joinAs(user, line.Entitlement(i%3))
		all = append(all, user)
		if i%3 == int(line.Entitled) {
			entitled = append(entitled, user)
		} else {
			others = append(others, user)
		}
	}
	return all, entitled, others
}

func (f *fixture) admitted() (users []string) {
	f.t.Helper()
	for _, a := range f.admissions() {
		users = append(users, a.User)
	}
	return users
}

// endSlots ends the slots of users, so that other users get slots.
func (f *fixture) endSlots(users ...string) {
	f.t.Helper()
	for _, user := range users {
		require.True(f.t, f.release(user, f.status(user).SlotID), user)
	}
}

func TestPresaleAdmitsOnlyTheEntitled(t *testing.T) {
	for name, status := range map[string]line.SaleStatus{"reported": line.Presale, "by the clock": line.Scheduled} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 3)
			opens := f.clock().Add(time.Minute)
			f.setPresale(status, opens, opens.Add(time.Hour))
			all, entitled, others := f.mixedCrowd(15)
			f.live(2*time.Second, all...)
			require.Empty(t, f.admissions(), "before the presale")
			require.Equal(t, line.Scheduled, f.peek().SaleStatus())

			f.time.Set(opens)
			f.ask()
			f.live(2*time.Second, all...)
			require.Equal(t, line.Presale, f.peek().SaleStatus())
			require.Equal(t, entitled[:3], f.admitted(), "in their order")
			require.Equal(t, others, f.set("queue"))
			require.Equal(t, entitled[3:], f.set("entitled"))
			st := f.peek()
			require.Equal(t, []int64{12, 2, 10}, []int64{st.Waiting, st.Entitled, st.WaitingGeneral()})

			f.endSlots(entitled[:3]...)
			require.Equal(t, line.Waiting, f.joinAs("late", line.NotEntitled).State, "a free slot is not for others")
			require.Equal(t, line.Waiting, f.joinAs("unknown", line.EntitlementUnknown).State)
			require.Equal(t, line.Waiting, f.joinAs("behind", line.Entitled).State, "other entitled ones are before")
			f.live(2*time.Second, all...)
			require.Equal(t, entitled, f.admitted()[:5])
			f.endSlots(entitled[3:]...)
			f.endSlots("behind")
			require.Equal(t, line.Inside, f.joinAs("at once", line.Entitled).State, "nobody who may enter waits")
			f.live(2*time.Second, all...)
			require.Len(t, f.admissions(), 7)
			require.Empty(t, admissiontest.FindOvertaken(f.admissions()))
		})
	}
}

// After the opening of the general sale both sets count as one line, in order of arrival.
func TestSaleAfterPresaleKeepsTheOrderOfArrival(t *testing.T) {
	f := presale(t, 0)
	all, entitled, others := f.mixedCrowd(30)
	f.apply(line.Settings{Threshold: ptr(3)})
	f.live(2*time.Second, all...)
	require.Equal(t, entitled[:3], f.admitted())
	f.openSale(all...)
	remaining := slices.DeleteFunc(slices.Clone(all), func(u string) bool { return slices.Contains(entitled[:3], u) })
	for i, user := range remaining {
		require.Equal(t, int64(i), f.status(user).Ahead, user)
	}
	require.Equal(t, others, f.set("queue"))
	for len(f.admitted()) < len(all) {
		f.endSlots(f.set("active")...)
		f.live(time.Second, all...)
	}
	require.Equal(t, append(entitled[:3:3], remaining...), f.admitted())
	require.Empty(t, admissiontest.FindOvertaken(f.admissions()))

	f.joinAs("new", line.Entitled)
	require.Empty(t, f.set("entitled"))
	f.clean()
	require.Equal(t, "0", f.client.HGet(f.ctx(), f.key("line"), "split").Val(), "the line costs no more than others")
}

// A tick of several pages always admits the visitor with the lower score of the two sets' first.
func TestTickAfterPresaleMergesPages(t *testing.T) {
	f := presale(t, 0)
	all, _, _ := f.mixedCrowd(150)
	f.openSale(all...)
	f.apply(line.Settings{Threshold: ptr(90)})
	f.live(time.Second, all...)
	require.Equal(t, all[:90], f.admitted())
	require.Empty(t, admissiontest.FindOvertaken(f.admissions()))
}

// A waiter who gets an entitlement later moves to the set `entitled`, with the same score.
func TestEntitlementMovesThePlace(t *testing.T) {
	f := presale(t, 0)
	before, b := f.joinAs("a", line.NotEntitled), f.joinAs("b", line.Entitled)
	require.Equal(t, []int64{0, 0}, []int64{before.Ahead, b.Ahead}, "only the entitled count before the entitled")
	require.False(t, before.Entitled)
	require.True(t, b.Entitled)
	rev := f.known.Revision
	f.entitle("a", true)
	require.Greater(t, f.known.Revision, rev)
	a := f.status("a")
	require.Equal(t, line.ClaimOutcome{State: line.Waiting, Score: before.Score, Entitled: true}, a)
	require.Equal(t, int64(1), f.status("b").Ahead)
	rev = f.known.Revision
	f.entitle("a", true)
	require.Equal(t, rev, f.known.Revision, "once")

	f.joinAs("a", line.EntitlementUnknown)
	require.Equal(t, []string{"a", "b"}, f.set("entitled"), "what is not known changes nothing")
	f.joinAs("a", line.NotEntitled)
	require.Equal(t, []string{"a"}, f.set("queue"), "it was withdrawn")
	require.Equal(t, before.Score, f.status("a").Score)
	f.joinAs("a", line.Entitled)
	f.apply(line.Settings{Threshold: ptr(1)})
	f.live(2*time.Second, "a", "b")
	require.Equal(t, []string{"a"}, f.admitted())
}

// An answer about a user is no contact: it does not make an absent user count as present.
func TestEntitlementIsNoContact(t *testing.T) {
	f := presale(t, 0)
	f.joinAs("gone", line.NotEntitled)
	others := f.crowd("w", 12)
	f.live(20*time.Second, others...)
	f.entitle("gone", true)
	f.apply(line.Settings{Threshold: ptr(2)})
	f.tick()
	require.Empty(t, f.admitted())
	require.Equal(t, []string{"gone"}, f.set("parked"))
	require.Equal(t, line.Inside, f.status("gone").State, "a parked place keeps the entitlement")
}

// Absent, late, leaving and blocked users are removed from both sets, and return to their own.
func TestBothSetsAreCleaned(t *testing.T) {
	f := presale(t, 0)
	for _, user := range []string{"leaves", "blocked", "sleeps", "stays"} {
		f.joinAs(user+"-e", line.Entitled)
		f.joinAs(user+"-n", line.NotEntitled)
	}
	places := map[string]line.ClaimOutcome{"sleeps-e": f.status("sleeps-e"), "sleeps-n": f.status("sleeps-n")}
	stay := append([]string{"stays-e", "stays-n"}, f.crowd("w", 10)...)
	require.True(t, f.release("leaves-e", ""))
	require.True(t, f.release("leaves-n", ""))
	f.observe(f.store.Block(f.ctx(), f.event, f.known, []string{"blocked-e", "blocked-n"}))
	f.live(601*time.Second, stay...)
	f.clean()
	require.Equal(t, []string{"sleeps-e", "sleeps-n"}, f.set("parked"))
	require.Equal(t, []string{"stays-e"}, f.set("entitled"))
	require.Len(t, f.set("queue"), 11)
	require.Len(t, f.set("seen"), 12)
	for user, place := range places {
		back := f.status(user)
		require.Equal(t, place.Score, back.Score, user)
		require.Equal(t, place.Entitled, back.Entitled, user)
	}
	require.Equal(t, []string{"sleeps-e"}, f.set("late"), "no slot is kept for who may not enter")
}

// After a loss a place is restored, but the ticket service must be asked about entitlements again.
func TestRestoredPlaceNeedsAKnownEntitlement(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){"wipe": (*fixture).wipe, "failover": (*fixture).failover} {
		t.Run(name, func(t *testing.T) {
			f := presale(t, 0)
			known, unknown := f.joinAs("known", line.Entitled), f.joinAs("unknown", line.Entitled)
			tickets := map[string]*line.Ticket{"known": f.ticket(known), "unknown": f.ticket(unknown)}
			lose(f)
			f.claim(line.PlaceClaim{UserID: "unknown", Ticket: tickets["unknown"]})
			back := f.claim(line.PlaceClaim{UserID: "known", Ticket: tickets["known"], Entitled: line.Entitled})
			require.Equal(t, known.Score, back.Score)
			f.apply(line.Settings{Threshold: ptr(5)})
			f.live(40*time.Second, "known", "unknown")
			if name == "wipe" {
				require.Equal(t, []string{"known"}, f.admitted())
				f.entitle("unknown", true)
				require.Equal(t, unknown.Score, f.score("entitled", "unknown"))
				f.live(time.Second, "known", "unknown")
			}
			require.Equal(t, []string{"known", "unknown"}, f.admitted())
		})
	}
}

// Admitted users without a token wait again after a failover, in their former set.
func TestUnclaimedSlotsReturnToTheirSet(t *testing.T) {
	f := presale(t, 1)
	f.joinAs("holder", line.Entitled)
	f.joinAs("e", line.Entitled)
	f.joinAs("n", line.NotEntitled)
	f.endSlots("holder")
	f.tick()
	require.Equal(t, []string{"e"}, f.set("unclaimed"))
	f.failover()
	f.tick()
	require.Equal(t, []string{"e"}, f.set("entitled"))
	require.Equal(t, []string{"n"}, f.set("queue"))
}

// Plain reads and the check script return the same ranks.
func TestReadsKnowBothSets(t *testing.T) {
	f := presale(t, 0)
	all, entitled, _ := f.mixedCrowd(12)
	check := func(before bool) {
		t.Helper()
		queries := make([]line.MemberQuery, 0, len(all)+1)
		for _, user := range all {
			queries = append(queries, line.MemberQuery{UserID: user, TwoSets: true})
		}
		members, err := f.store.LookUp(f.ctx(), f.event, append(queries, line.MemberQuery{UserID: "nobody", TwoSets: true}))
		require.NoError(t, err)
		require.False(t, members[len(all)].Found)
		for i, user := range all {
			place, m := f.status(user), members[i]
			require.True(t, m.Found)
			require.Equal(t, slices.Contains(entitled, user), m.Entitled)
			require.Equal(t, place.Score, m.Score)
			ahead := m.Ahead
			if !before || !m.Entitled {
				ahead += m.Others
			}
			require.Equal(t, place.Ahead, ahead, user)
		}
	}
	check(true)
	f.openSale(all...)
	check(false)
}

// The end of a sale removes both sets and the stored entitlements.
func TestEndOfPresaleFreesBothSets(t *testing.T) {
	f := presale(t, 0)
	f.mixedCrowd(6)
	f.setPresale(line.Cancelled, f.clock().Add(-time.Minute), f.clock().Add(time.Hour))
	f.tick()
	f.advance(time.Minute)
	f.ask()
	f.tick()
	require.Empty(t, f.set("queue"))
	n, err := f.client.Exists(f.ctx(), f.key("entitled"), f.key("granted")).Result()
	require.NoError(t, err)
	require.Zero(t, n)
	require.Zero(t, f.peek().Waiting)
}

// A line without a presale has only one set, even if users are known to be entitled.
func TestLineWithoutPresaleIsNotDivided(t *testing.T) {
	f := setup(t, 1)
	f.setSale(line.OnSale, f.clock().Add(-time.Hour))
	f.joinAs("in", line.Entitled)
	f.joinAs("e", line.Entitled)
	f.joinAs("n", line.NotEntitled)
	f.entitle("n", true)
	require.Equal(t, []string{"e", "n"}, f.set("queue"))
	n, err := f.client.Exists(f.ctx(), f.key("entitled"), f.key("granted")).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}
