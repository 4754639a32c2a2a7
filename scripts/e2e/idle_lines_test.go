package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
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

// TestIdleLinesCostNothing: what three replicas of queue send to Redis depends on the lines with
// visitors, and not on how many are open. A line counts as used for a minute after it is opened; to
// save the wait the replicas are restarted without this mark.
func TestIdleLinesCostNothing(t *testing.T) {
	t.Parallel()
	const open, busy, replicas, visitors = 200, 2, 3, 5
	// Scripts, the registry and pings. With every open line swept once a second it would be 200 more.
	const most = 60.0
	server := redistest.StartServer(t) // its own: Redis counts the commands of all its clients
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
	name := func(i int) string { return fmt.Sprintf("idle-%04d", i) }
	now, first := time.Now(), queue(0)
	for i := range open {
		_, err := events.PutEvent(t.Context(), &ticketv1.PutEventRequest{Caller: operator, EventId: name(i), Spec: &ticketv1.EventSpec{
			Title: "Idle", StartsAt: timestamppb.New(now.Add(30 * 24 * time.Hour)), SalesOpenAt: timestamppb.New(now.Add(-time.Minute)),
			SalesCloseAt: timestamppb.New(now.Add(24 * time.Hour)), Seating: "GENERAL", Currency: "KRW", MaxPerUser: 1, Threshold: new(int64(1)),
			Sections: []*ticketv1.SectionSpec{{Section: "A", Price: 1000, Capacity: new(int64(100))}},
		}})
		require.NoError(t, err)
		// A visitor without a position opens the line, and gets no place.
		var reason string
		testkit.Until(t, func() bool { // a busy machine may take longer than the opening of a line may
			opened, err := first.Check(t.Context(), &queuev1.LineRequest{Items: []*queuev1.LineItem{{EventId: name(i), Caller: opener}}})
			require.NoError(t, err)
			reason = opened.GetResults()[0].GetProblem().GetReason()
			return reason != "UNAVAILABLE"
		}, "the line opens")
		require.Equal(t, "VWR_TOKEN_REQUIRED", reason)
	}
	for i := range replicas {
		p.Service(platform.Queue).Stop(i)
	}
	require.NoError(t, store.Del(t.Context(), "{queue:active-events}:busy").Err())
	for i := range replicas {
		p.Service(platform.Queue).Start(i)
	}
	// Somebody is inside each busy line, and others wait behind.
	lines := func(i, from int) *queuev1.LineRequest {
		var r queuev1.LineRequest
		for v := from; v < visitors; v++ {
			r.Items = append(r.Items, &queuev1.LineItem{Caller: &commonv1.Caller{UserId: fmt.Sprintf("idle-%d", v)}, EventId: name(i)})
		}
		return &r
	}
	placed := func(out *queuev1.LineResponse, err error) {
		require.NoError(t, err)
		for _, r := range out.GetResults() {
			require.NotNil(t, r.GetPlace(), "%v", r.GetProblem())
		}
	}
	for i := range busy {
		placed(queue(i).Check(t.Context(), lines(i, 0)))
	}
	const settle, measured = 10, 5 // seconds: replicas read settings and sales at the start
	var before float64
	var began time.Time
	for second := range settle + measured {
		if second == settle {
			before, began = commands(t, store), time.Now()
		}
		for i := range busy {
			placed(queue(i+second).Status(t.Context(), lines(i, 1)))
		}
		loop.Sleep(t.Context(), time.Second)
	}
	require.Less(t, (commands(t, store)-before)/time.Since(began).Seconds(), most)
}

// commands counts what replicas of queue send apart from visitors' polls: scripts, the registry and
// pings. Scripts run some of them too, so the count is a little too high.
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
