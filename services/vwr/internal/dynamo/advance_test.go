package dynamo_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

var epoch = time.Unix(1_800_000_000, 0)

type noLoads struct{}

func (noLoads) ReadLoad(context.Context, string) (room.TierTwoLoad, error) {
	return room.TierTwoLoad{}, errors.New("nobody there")
}

// testReplica is a replica whose steps the test runs.
type testReplica struct {
	*room.Advancer

	cache *room.StateCache
}

func newTestReplica(s *dynamo.Store, clock *testkit.Clock) testReplica {
	b := room.NewStateCache()
	return testReplica{room.NewAdvancer(b, s, dynamo.NewClaims(s), noLoads{}, clock.Now, slog.New(slog.DiscardHandler)), b}
}

// stepConcurrently runs one step of each replica, all at the same time.
func stepConcurrently(t *testing.T, replicas ...testReplica) {
	t.Helper()
	failures := make([]error, len(replicas))
	var work sync.WaitGroup
	for i, a := range replicas {
		work.Go(func() { failures[i] = a.Step(t.Context()) })
	}
	work.Wait()
	require.NoError(t, errors.Join(failures...))
}

// Three replicas advance one event at once in DynamoDB: never faster than configured, never back,
// never beyond the last position. If the replica that moves the counter dies, another takes over.
func TestAdvancersOnDynamoDB(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	open := tables(t)
	watch, clock := open(dynamotest.Hook{}), testkit.NewClock(epoch)
	const event, people = "advance", 180
	settings := room.Settings{Batch: 30, Interval: time.Second, Inlet: room.Periodic}
	c := roomtest.StartRound(t, watch, event, settings)
	roomtest.TakeMany(t, watch, c, people)
	alive := []testReplica{newTestReplica(open(dynamotest.Hook{}), clock), newTestReplica(open(dynamotest.Hook{}), clock), newTestReplica(open(dynamotest.Hook{}), clock)}
	stepConcurrently(t, alive...)
	steps := 0
	for last := int64(0); last < people; steps++ {
		elapsed := clock.Advance(room.ReadInterval).Sub(epoch)
		stepConcurrently(t, alive...)
		got := roomtest.Read(t, watch, event)
		require.LessOrEqual(t, float64(got.Serving), settings.Rate()*elapsed.Seconds(), "after %v", elapsed)
		require.GreaterOrEqual(t, got.Serving, last, "after %v", elapsed)
		require.LessOrEqual(t, got.Serving, got.Issued, "after %v", elapsed)
		if (last < 60 && got.Serving >= 60) || (last < 90 && got.Serving >= 90) {
			alive = withoutWinner(alive)
		}
		last = got.Serving
	}
	require.Len(t, alive, 1)
	// Without faults 15 steps suffice. Each takeover may cost two more, since the next replica
	// restarts its measurement.
	require.LessOrEqual(t, steps, 15+2*2)
	stepConcurrently(t, alive...)
	st, ok := alive[0].cache.Get(event)
	require.True(t, ok)
	require.Equal(t, int64(people), st.Serving)
	require.Positive(t, st.Rate)
	require.LessOrEqual(t, st.Rate, 1.1*settings.Rate())
}

// withoutWinner returns the replicas except the one that has moved the counter most often.
func withoutWinner(replicas []testReplica) []testReplica {
	winner := slices.MaxFunc(replicas, func(a, b testReplica) int {
		return cmp.Compare(a.Stats().Won.Load(), b.Stats().Won.Load())
	})
	return slices.DeleteFunc(replicas, func(a testReplica) bool { return a == winner })
}

// A replica that is paused between its read and its write does not move the counter: neither back,
// nor in addition to other replicas.
func TestPausedReplicaLosesItsWrite(t *testing.T) {
	t.Parallel()
	open := tables(t)
	g := newGate()
	other := open(dynamotest.Hook{})
	c := roomtest.StartRound(t, other, "paused", room.DefaultSettings())
	roomtest.TakeMany(t, other, c, 400)
	clock := testkit.NewClock(epoch)
	paused, running := newTestReplica(open(dynamotest.Hook{Before: func(in any) error {
		if claims, _ := isClaimsWrite(in); isUpdate(in) && !claims {
			g.block()
		}
		return nil
	}}), clock), newTestReplica(other, clock)
	stepConcurrently(t, paused, running)
	clock.Advance(time.Second)
	var late error
	var work sync.WaitGroup
	work.Go(func() { late = paused.Step(t.Context()) })
	g.awaitBlocked(t) // it has read 0 and is about to write 50
	stepConcurrently(t, running)
	clock.Advance(time.Second)
	stepConcurrently(t, running)
	close(g.open)
	work.Wait()
	require.NoError(t, late)
	require.Equal(t, int64(100), roomtest.Read(t, other, c.EventID).Serving, "in 2 s at 50/s")
	require.Equal(t, int64(1), paused.Stats().Lost.Load())
	stepConcurrently(t, paused)
	require.Equal(t, int64(100), roomtest.Read(t, other, c.EventID).Serving, "the paused replica does not make up for its pause")
}

// A step reads the registry, and the events in it by their keys. So its cost does not depend on the
// number of events in the table.
func TestAdvancerNeverScans(t *testing.T) {
	t.Parallel()
	open := tables(t)
	operator := open(dynamotest.Hook{})
	const ended, active, steps = 12, 3, 5
	for i := range ended {
		c := roomtest.StartRound(t, operator, fmt.Sprint("ended-", i), room.DefaultSettings())
		require.NoError(t, operator.Stop(t.Context(), c.EventID, c.Round))
	}
	for i := range active {
		roomtest.TakeMany(t, operator, roomtest.StartRound(t, operator, fmt.Sprint("active-", i), room.DefaultSettings()), 40)
	}
	var mu sync.Mutex
	var read int
	calls := map[string]int{}
	clock := testkit.NewClock(epoch)
	a := newTestReplica(open(dynamotest.Hook{Before: func(in any) error {
		mu.Lock()
		defer mu.Unlock()
		calls[strings.TrimPrefix(fmt.Sprintf("%T", in), "*dynamodb.")]++
		if in, ok := in.(*awsdynamo.BatchGetItemInput); ok {
			for _, keys := range in.RequestItems {
				read += len(keys.Keys)
			}
		}
		return nil
	}}), clock)
	for range steps {
		clock.Advance(room.ReadInterval)
		stepConcurrently(t, a)
	}
	require.Len(t, a.cache.All(), active, "it knows the active events")
	for _, st := range a.cache.All() {
		require.Positive(t, st.Serving, "and advances %s", st.EventID)
	}
	mu.Lock()
	defer mu.Unlock()
	for call := range calls {
		require.Contains(t, []string{"BatchGetItemInput", "UpdateItemInput"}, call)
	}
	// Each step reads the registry, the active events, and at most the claims of each event.
	require.LessOrEqual(t, read, active+steps*(1+2*active))
	require.LessOrEqual(t, calls["BatchGetItemInput"], 1+steps*(1+active))
}
