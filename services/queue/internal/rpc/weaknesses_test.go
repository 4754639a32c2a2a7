package rpc_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// A page that only polls gets the entry token with the answer that says that it has a slot. check
// and status give the same answer for the same state.
func TestStatusDeliversTheEntryToken(t *testing.T) {
	f := setup(t)
	f.open(1)
	a, _ := f.enter("a")
	f.check(f.item("b"))
	same := func(wants string) *queuev1.Place {
		t.Helper()
		status, check := f.status(f.item("b")).GetPlace(), f.check(f.item("b")).GetPlace()
		require.Equal(t, wants, status.GetStatus())
		// The tokens are signatures of the same content; the time of the next poll is random.
		differing := protocmp.IgnoreFields(&queuev1.Place{}, "next_poll", "ticket", "entry_token")
		require.Empty(t, cmp.Diff(check, status, protocmp.Transform(), differing))
		require.Equal(t, check.GetEntryToken() != "", status.GetEntryToken() != "")
		require.Equal(t, check.GetTicket() != "", status.GetTicket() != "")
		return status
	}
	same("queued")
	f.leave("a", a.GetEntry())
	f.tick()
	place := f.status(f.item("b")).GetPlace()
	require.Equal(t, "active", place.GetStatus())
	require.True(t, f.verify("b", f.claims(place.GetEntryToken())).GetActive(), "the first answer has the token")
	require.NotEmpty(t, same("active").GetEntryToken())
}

// Each line has its own threshold. A change is in force from the next tick on.
func TestThresholdIsPerEvent(t *testing.T) {
	f := setup(t)
	small, large := *f, *f
	large.event = f.event + "-large"
	small.open(1)
	large.open(3)
	inside := func(f fixture) (n int) {
		t.Helper()
		for i := range 6 {
			if f.check(f.item(fmt.Sprint("u", i))).GetPlace().GetStatus() == "active" {
				n++
			}
		}
		return n
	}
	require.Equal(t, []int{1, 3}, []int{inside(small), inside(large)})
	_, err := f.admin.SetThreshold(f.ctx(), &queuev1.SetThresholdRequest{Caller: f.operator(), EventId: large.event, Threshold: proto.Int64(5)})
	require.NoError(t, err)
	f.tick()
	require.Equal(t, []int{1, 5}, []int{inside(small), inside(large)})
	require.Equal(t, []int64{1, 5}, []int64{small.status(f.item("u5")).GetPlace().GetThreshold(), large.status(large.item("u5")).GetPlace().GetThreshold()})
}

// A position of tier 1 can be used by one user only: the first who joins with it, whichever other
// user sends it, at any replica and time.
func TestPassServesOneUser(t *testing.T) {
	f := setup(t)
	f.open(1)
	round := f.clock().Add(-time.Minute).UnixMicro()
	with := func(user string, position int64) *queuev1.LineItem {
		it := f.item(user)
		it.Caller.Tier1 = &commonv1.Tier1{Required: true, Round: round, Position: position}
		return it
	}
	first := f.visitors
	f.serve(f.client, make(chan struct{})) // a second replica
	const thieves = 10
	results := make([]*queuev1.LineResult, thieves)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			replica := []queuev1.QueueServiceClient{first, f.visitors}[i%2]
			res, err := replica.Check(f.ctx(), &queuev1.LineRequest{Items: []*queuev1.LineItem{with(fmt.Sprint("u", i), 7)}})
			if err == nil {
				results[i] = res.GetResults()[0]
			}
		})
	}
	wg.Wait()
	owner := ""
	for i, r := range results {
		if r.GetPlace() != nil {
			require.Empty(t, owner, "the position has one owner")
			owner = fmt.Sprint("u", i)
			continue
		}
		require.Equal(t, "PASS_USED", r.GetProblem().GetReason())
	}
	require.NotEmpty(t, owner)

	place := f.status(f.item(owner)).GetPlace()
	require.Equal(t, "active", place.GetStatus())
	f.leave(owner, f.claims(place.GetEntryToken()))
	require.Equal(t, "PASS_USED", f.check(with("late", 7)).GetProblem().GetReason(), "after its owner has left")
	require.Equal(t, "VWR_TOKEN_REQUIRED", f.check(with("late", 0)).GetProblem().GetReason())
	f.tickets.set(f.event, &ticketv1.LineSettings{Threshold: proto.Int64(1)})
	require.NotNil(t, f.check(with("late", 8)).GetPlace(), "with a position of one's own")
}
