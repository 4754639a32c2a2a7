package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

var errUnexpected = errors.New("not the expected answer")

// TestIdleLinesCostNothing: the commands that three queue replicas send to Redis depend on the
// lines with visitors, not on the number of open lines. A line counts as busy for a minute after it
// opens. To save this wait, the test removes the mark of a busy line and restarts the replicas.
func TestIdleLinesCostNothing(t *testing.T) {
	t.Parallel()
	const openLines, busyLines, replicas, visitors = 100, 2, 3, 5
	// Scripts, the registry and pings. Sweeping every open line each second would add 100 commands.
	const maxRate = 60.0
	server := redistest.StartServer(t) // a separate one: Redis counts the commands of all clients
	store := server.Client()
	p := harness.Start(t, harness.Options{
		Services: []string{platform.Queue, platform.Ticket}, Replicas: map[string]int{platform.Queue: replicas},
		Env: map[string][]string{platform.Queue: {"REDIS_ADDRS=" + server.Addr(), "REDIS_DB=0"}},
	})
	queue := func(i int) queuev1.QueueServiceClient {
		return queuev1.NewQueueServiceClient(p.Dial(platform.Gateway, platform.Queue, i%replicas))
	}
	events := ticketv1.NewEventAdminServiceClient(p.Dial(platform.Gateway, platform.Ticket, 0))
	operator := &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}
	opener := &commonv1.Caller{UserId: "opener", Tier1: &commonv1.Tier1{Required: true}}
	eventID := func(i int) string { return fmt.Sprintf("idle-%04d", i) }
	now, first := time.Now(), queue(0)
	for i := range openLines {
		testkit.UntilNoError(t, func() error { // on a busy machine a call may exceed its time limit
			_, err := events.PutEvent(t.Context(), &ticketv1.PutEventRequest{Caller: operator, EventId: eventID(i), Spec: &ticketv1.EventSpec{
				Title: "Idle", StartsAt: timestamppb.New(now.Add(30 * 24 * time.Hour)), SalesOpenAt: timestamppb.New(now.Add(-time.Minute)),
				SalesCloseAt: timestamppb.New(now.Add(24 * time.Hour)), Seating: "GENERAL", Currency: "KRW", MaxPerUser: 1, Threshold: new(int64(1)),
				Sections: []*ticketv1.SectionSpec{{Section: "A", Price: 1000, Capacity: new(int64(100))}},
			}})
			return err
		}, "the event is stored")
		// A check by a visitor without a tier-1 position opens the line, but is refused.
		opening := &queuev1.LineRequest{Items: []*queuev1.LineItem{{EventId: eventID(i), Caller: opener}}}
		requireResults(t, first.Check, opening, func(r *queuev1.LineResult) bool { return r.GetProblem().GetReason() == "VWR_TOKEN_REQUIRED" })
	}
	for i := range replicas {
		p.Service(platform.Queue).Stop(i)
	}
	require.NoError(t, store.Del(t.Context(), "{queue:active-events}:busy").Err())
	for i := range replicas {
		p.Service(platform.Queue).Start(i)
	}
	// In each busy line one visitor is admitted, and the rest waits.
	lineRequest := func(i, firstVisitor int) *queuev1.LineRequest {
		var r queuev1.LineRequest
		for v := firstVisitor; v < visitors; v++ {
			r.Items = append(r.Items, &queuev1.LineItem{Caller: &commonv1.Caller{UserId: fmt.Sprintf("idle-%d", v)}, EventId: eventID(i)})
		}
		return &r
	}
	hasPlace := func(r *queuev1.LineResult) bool { return r.GetPlace() != nil }
	for i := range busyLines {
		requireResults(t, queue(i).Check, lineRequest(i, 0), hasPlace)
	}
	// A starting replica also reads settings and sales, longer on a busy machine: measure repeatedly.
	const seconds, measurements = 5, 12
	var rate float64
	for range measurements {
		before, began := commands(t, store), time.Now()
		for second := range seconds {
			for i := range busyLines {
				requireResults(t, queue(i+second).Status, lineRequest(i, 1), hasPlace)
			}
			loop.Sleep(t.Context(), time.Second)
		}
		if rate = (commands(t, store) - before) / time.Since(began).Seconds(); rate < maxRate {
			return
		}
	}
	t.Errorf("%.0f commands per second", rate)
}

// lineCall is a call of the queue service on a line.
type lineCall func(context.Context, *queuev1.LineRequest, ...grpc.CallOption) (*queuev1.LineResponse, error)

// requireResults repeats a call until each result is as expected: on a busy machine a call may exceed
// its time limit.
func requireResults(t *testing.T, call lineCall, line *queuev1.LineRequest, expected func(*queuev1.LineResult) bool) {
	t.Helper()
	testkit.UntilNoError(t, func() error {
		out, err := call(t.Context(), line)
		if err != nil {
			return err
		}
		require.Len(t, out.GetResults(), len(line.GetItems()))
		for _, r := range out.GetResults() {
			if !expected(r) {
				return fmt.Errorf("%w: %v", errUnexpected, r)
			}
		}
		return nil
	}, "the expected results")
}

// commands counts the commands that queue replicas send, except visitors' polls: scripts, the
// registry and pings. Scripts run some of these commands too, so the count is a little too high.
func commands(t *testing.T, rdb *redis.Client) (sum float64) {
	t.Helper()
	stats, err := rdb.InfoMap(context.WithoutCancel(t.Context()), "commandstats").Result()
	require.NoError(t, err)
	for _, name := range []string{"evalsha", "eval", "smembers", "sadd", "srem", "ping"} {
		var calls float64
		if _, err := fmt.Sscanf(stats["Commandstats"]["cmdstat_"+name], "calls=%f,", &calls); err == nil {
			sum += calls
		}
	}
	return sum
}
