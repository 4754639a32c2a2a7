package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	queueReplicas = 3
	lineGateways  = 2
)

// lineRun is tier 2 with a separate Redis, which the run may kill, and one line after another.
type lineRun struct {
	*harness.Platform
	t *testing.T
	chance

	server    *redistest.Server
	store     *redis.Client // of the server
	event     string
	threshold *atomic.Int64
}

// setupLine starts the replicas without tier 1. The settings are for the queue service.
func setupLine(t *testing.T, rng *rand.Rand, services []string, settings ...string) *lineRun {
	t.Helper()
	server := redistest.StartServer(t, "--appendonly", "yes")
	l := &lineRun{t: t, chance: chance{rng: rng}, server: server, store: server.Client()}
	l.Platform = harness.Start(t, harness.Options{
		Services: append([]string{platform.Ticket, platform.Queue, platform.Gateway}, services...),
		Replicas: map[string]int{platform.Queue: queueReplicas, platform.Gateway: lineGateways},
		Env: map[string][]string{
			platform.Queue:   append([]string{"REDIS_ADDRS=" + server.Addr(), "REDIS_DB=0"}, settings...),
			platform.Gateway: {"VWR_ADDR="},
		},
	})
	return l
}

// open opens a sale with a line, and checks from now on that its slots do not exceed the threshold.
func (l *lineRun) open(eventID string, threshold int) {
	l.t.Helper()
	l.event = eventID
	limit := new(atomic.Int64)
	limit.Store(int64(threshold))
	l.threshold = limit
	now := time.Now().UTC().Truncate(time.Second)
	l.Operator().MustCall(l.t.Context(), http.MethodPut, "/api/v1/admin/events/"+eventID, map[string]any{
		"title": "Chaos", "artist": "The Crowd", "venue": "Hall 1",
		"startsAt": now.Add(30 * 24 * time.Hour), "salesOpenAt": now.Add(-time.Minute), "salesCloseAt": now.Add(24 * time.Hour),
		"seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 2, "holdSeconds": 60, "threshold": threshold,
		"sections": []map[string]any{{"section": "A", "price": 55000, "rows": 10, "seatsPerRow": 20}},
	}, nil)
	l.Always("no more slots than the threshold", 200*time.Millisecond, func(ctx context.Context) (string, error) {
		active, _, err := l.slots(ctx, eventID)
		if most := limit.Load(); err == nil && active > most {
			return fmt.Sprintf("%s: %d of %d", eventID, active, most), nil
		}
		return "", err
	})
}

// setThreshold sets the threshold of the line, as an operator.
func (l *lineRun) setThreshold(n int) {
	l.t.Helper()
	l.threshold.Store(max(l.threshold.Load(), int64(n)))
	l.Operator().MustCall(l.t.Context(), http.MethodPut, "/api/v1/queue/admin/threshold/"+l.event, map[string]any{"threshold": n}, nil)
	l.threshold.Store(int64(n))
}

func (l *lineRun) key(name string) string { return "{" + l.event + "}:" + name }

// slots counts the slots of a line, and the slots whose holders have not fetched their tokens.
func (l *lineRun) slots(ctx context.Context, eventID string) (active, unclaimed int64, err error) {
	var all, open *redis.IntCmd
	_, err = l.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		all = p.ZCount(ctx, "{"+eventID+"}:active", "("+strconv.FormatInt(time.Now().UnixMilli(), 10), "+inf")
		open = p.ZCard(ctx, "{"+eventID+"}:unclaimed")
		return nil
	})
	return all.Val(), open.Val(), err
}

// places returns the scores of all users who wait or are parked.
func (l *lineRun) places() (waiting, parked map[string]int64) {
	l.t.Helper()
	ctx := l.t.Context()
	var queue, aside *redis.ZSliceCmd
	_, err := l.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		queue = p.ZRangeWithScores(ctx, l.key("queue"), 0, -1)
		aside = p.ZRangeWithScores(ctx, l.key("parked"), 0, -1)
		return nil
	})
	require.NoError(l.t, err)
	return scores(queue.Val()), scores(aside.Val())
}

func scores(members []redis.Z) map[string]int64 {
	out := make(map[string]int64, len(members))
	for _, m := range members {
		user, _ := m.Member.(string)
		out[user] = int64(m.Score)
	}
	return out
}

// admissions returns the admissions that the queue service has recorded.
func (l *lineRun) admissions() []audit.Admission {
	l.t.Helper()
	all, err := audit.ReadAdmissions(l.t.Context(), l.store, l.event)
	require.NoError(l.t, err)
	return all
}

// requireOrder requires that nobody was overtaken, by the admissions since the last loss of data.
func (l *lineRun) requireOrder() []audit.Admission {
	l.t.Helper()
	all := l.admissions()
	inversions, afterAbsence := audit.Inversions(all), 0
	for _, a := range all {
		if a.PresentSince > a.Score/1000 {
			afterAbsence++
		}
	}
	l.t.Logf("%s: %d inversions in %d admissions, %d of which after an absence", l.event, len(inversions), len(all), afterAbsence)
	require.Empty(l.t, inversions)
	return all
}
