package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// One call finds waiters, holders and users in no set, in the order of the queries.
func TestLookUpOfWaitersAndHolders(t *testing.T) {
	f := setup(t, 2)
	slots := []string{f.join("in-0").SlotID, f.join("in-1").SlotID}
	f.crowd("wait", 3)
	now := f.clock().UnixMilli()
	require.NoError(t, f.store.UpdateLastSeen(f.ctx(), f.event, []line.LastSeenUpdate{
		{UserID: "in-1", Holder: true, At: now + 1}, {UserID: "wait-2", At: now + 2, Poll: 60}, {UserID: "gone", At: now},
		{UserID: "in-0", Holder: true, At: now + 3}, {UserID: "wait-0", At: now + 4, Poll: 1},
	}))
	found, err := f.store.LookUp(f.ctx(), f.event, []line.MemberQuery{
		{UserID: "wait-2"}, {UserID: "in-1", Holder: true}, {UserID: "gone"}, {UserID: "wait-0", Holder: true},
		{UserID: "in-0"}, {UserID: "wait-0"}, {UserID: "gone", Holder: true}, {UserID: "in-0", Holder: true},
	})
	require.NoError(t, err)
	require.Len(t, found, 8)
	for i, want := range map[int]line.MemberState{
		0: {Found: true, Ahead: 2, Poll: 60, LastSeen: now + 2}, 1: {Found: true, SlotID: slots[1], LastSeen: now + 1},
		5: {Found: true, Poll: 1, LastSeen: now + 4}, 7: {Found: true, SlotID: slots[0], LastSeen: now + 3},
	} {
		got := found[i]
		if want.SlotID == "" {
			require.Positive(t, got.Score)
		} else {
			require.Greater(t, got.End, now-time.Hour.Milliseconds())
		}
		got.Score, got.End = 0, 0
		require.Equal(t, want, got, i)
	}
	for _, i := range []int{2, 3, 4, 6} {
		require.Equal(t, line.MemberState{}, found[i], i)
	}
}

// The reply about a missing waiter does not hide the error of a later command.
func TestLookUpReportsErrorBehindMissingMember(t *testing.T) {
	f := setup(t, 1)
	require.NoError(t, f.client.Set(f.ctx(), "{"+f.event+"}:slot", "no hash", 0).Err())
	_, err := f.store.LookUp(f.ctx(), f.event, []line.MemberQuery{{UserID: "gone"}, {UserID: "in", Holder: true}})
	require.ErrorContains(t, err, "WRONGTYPE")
}
