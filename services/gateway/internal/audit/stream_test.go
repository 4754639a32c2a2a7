package audit_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/audit"
)

// onEachServer runs a test with a single Redis and with a cluster, each time with a key of its own.
func onEachServer(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient, key string)) {
	t.Helper()
	for name, server := range map[string]struct {
		open   func(testing.TB) redis.UniversalClient
		prefix func(testing.TB) string
	}{
		"single":  {redistest.Open, redistest.Prefix},
		"cluster": {redistest.OpenCluster, redistest.ClusterPrefix},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server.open(t), "{"+server.prefix(t)+"}")
		})
	}
}

// stream returns a single Redis, and the key of a stream that only this test uses.
func stream(t *testing.T) (rdb redis.UniversalClient, key string) {
	t.Helper()
	return redistest.Open(t), "{" + redistest.Prefix(t) + "}"
}

// fill adds n entries that are not records to the stream.
func fill(t *testing.T, rdb redis.UniversalClient, key string, n int) {
	t.Helper()
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []any{"event", fmt.Sprint(i)}})
		}
		return nil
	})
	require.NoError(t, err)
}

// While Kafka is down, the records of acts that stop a sale wait in Redis, even if their gateway
// dies. Another gateway publishes them in order once Kafka is up again.
func TestRecordsWaitInRedis(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, rdb redis.UniversalClient, key string) {
		t.Helper()
		b := downBroker()
		dead := newGateway(t, b, rdb, key)
		require.ErrorIs(t, dead.RecordAct(t.Context(), act(false)), errs.ErrAuditUnavailable)
		const many = 250 // more than one call moves
		var want []string
		for range many {
			a := act(true)
			require.NoError(t, dead.RecordAct(t.Context(), a))
			want = append(want, a.ID.String())
		}
		n, err := rdb.XLen(t.Context(), key).Result()
		require.NoError(t, err)
		require.EqualValues(t, many, n)

		b.setDown(false)
		for range 3 {
			newGateway(t, b, rdb, key).run()
		}
		testkit.Until(t, func() bool {
			n, err := rdb.XLen(t.Context(), key).Result()
			require.NoError(t, err)
			return n == 0
		}, "all records are moved")
		require.Equal(t, want, b.acts(t, "OPERATOR_ACTED"), "once each, since one gateway moves at a time")
	})
}

// If a gateway dies between publishing and removing records, they are published again.
func TestMoveIsRepeated(t *testing.T) {
	t.Parallel()
	rdb, key := stream(t)
	b := downBroker()
	g := newGateway(t, b, rdb, key)
	a := act(true)
	require.NoError(t, g.RecordAct(t.Context(), a))
	entries, err := rdb.XRange(t.Context(), key, "-", "+").Result()
	require.NoError(t, err)
	b.setDown(false)
	g.run()
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == 1 }, "the first publication")
	require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: entries[0].Values}).Err())
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == 2 }, "the second")
	require.Equal(t, []string{a.ID.String(), a.ID.String()}, b.acts(t, "OPERATOR_ACTED"))
	require.Equal(t, b.recs[0].Headers[kafka.HeaderID], b.recs[1].Headers[kafka.HeaderID], "consumers recognise it")
}

// Entries of the stream that are not records must not prevent other entries from being published.
func TestForeignEntriesAreDropped(t *testing.T) {
	t.Parallel()
	rdb, key := stream(t)
	for _, values := range [][]any{{"other", "x"}, {"event", "no JSON"}, {"event", `{"actId":"x"}`}} {
		require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: values}).Err())
	}
	b := downBroker()
	g := newGateway(t, b, rdb, key)
	a := act(true)
	require.NoError(t, g.RecordAct(t.Context(), a))
	entries, err := rdb.XRevRangeN(t.Context(), key, "+", "-", 1).Result()
	require.NoError(t, err)
	invented := maps.Clone(entries[0].Values)
	invented["event"] = strings.Replace(invented["event"].(string), a.UserID, "innocent", 1) //nolint:forcetypeassert // of a gateway
	require.NotEqual(t, entries[0].Values, invented)
	require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: invented}).Err())
	b.setDown(false)
	g.run()
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == 1 }, "the record behind them")
	testkit.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == 0 }, "nothing is left")
}

// When the process ends, it moves the records in its memory to Redis.
func TestEndOfTheProcess(t *testing.T) {
	t.Parallel()
	rdb, key := stream(t)
	b := downBroker()
	g := newGateway(t, b, rdb, key)
	g.run()
	a := act(true)
	require.NoError(t, g.RecordAct(t.Context(), a))
	g.RecordOutcome(a, audit.Outcome{Status: 200})
	g.stop()
	require.EqualValues(t, 2, rdb.XLen(t.Context(), key).Val())
}

// The stream has a limit, of which outcomes fill half. An act that finds it full is still served.
func TestStreamIsBounded(t *testing.T) {
	t.Parallel()
	rdb, key := stream(t)
	b := downBroker()
	g := newGateway(t, b, rdb, key)
	// Another gateway holds the lease, since this one would drop the entries that are no records.
	require.NoError(t, rdb.Set(t.Context(), key+":lease", "another", time.Hour).Err())
	fill(t, rdb, key, audit.MaxWaiting/2)
	g.run()
	g.RecordOutcome(act(true), audit.Outcome{Status: 200})
	g.stop()
	require.EqualValues(t, audit.MaxWaiting/2, rdb.XLen(t.Context(), key).Val(), "an outcome")
	require.NoError(t, g.RecordAct(t.Context(), act(true)))
	require.EqualValues(t, audit.MaxWaiting/2+1, rdb.XLen(t.Context(), key).Val(), "an act")
	fill(t, rdb, key, audit.MaxWaiting/2-1)
	require.NoError(t, g.RecordAct(t.Context(), act(true)))
	require.EqualValues(t, audit.MaxWaiting, rdb.XLen(t.Context(), key).Val())
}

// Kafka refuses more records than one call moves. All others arrive at once, those later.
func TestFailedRecordsDoNotBlock(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	rdb, key := stream(t)
	b := downBroker()
	g := newGateway(t, b, rdb, key)
	begin := func(user string) string {
		t.Helper()
		a := act(true)
		a.UserID = user
		require.NoError(t, g.RecordAct(t.Context(), a))
		return a.ID.String()
	}
	var bobs, anns []string
	for i := range 300 {
		bobs = append(bobs, begin("bob"))
		if i >= 220 {
			anns = append(anns, begin("ann"))
		}
	}
	b.setDown(false)
	b.refuse("bob")
	g.run()
	testkit.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == int64(len(bobs)) }, "the others are moved")
	calls := b.callCount()
	testkit.Until(t, func() bool { return b.callCount() > calls }, "another attempt")
	require.Equal(t, anns, b.acts(t, "OPERATOR_ACTED"), "once each")
	b.refuse("")
	testkit.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == 0 }, "all are moved")
	require.ElementsMatch(t, append(anns, bobs...), b.acts(t, "OPERATOR_ACTED"), "once each")
}

// A gateway that cannot reach Kafka releases the lease to one that can.
func TestLeaseIsGivenUp(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	onEachServer(t, func(t *testing.T, rdb redis.UniversalClient, key string) {
		t.Helper()
		unreachable, reachable := downBroker(), &broker{}
		g := newGateway(t, unreachable, rdb, key)
		a := act(true)
		require.NoError(t, g.RecordAct(t.Context(), a))
		calls := unreachable.callCount()
		start := time.Now()
		g.run()
		testkit.Until(t, func() bool { return unreachable.callCount() > calls }, "it holds the lease")
		testkit.Until(t, func() bool { return rdb.Exists(t.Context(), key+":lease").Val() == 0 }, "it gives the lease up")
		other := newGateway(t, reachable, rdb, key)
		other.run()
		testkit.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == 0 }, "the other moves the record")
		require.Equal(t, []string{a.ID.String()}, reachable.acts(t, "OPERATOR_ACTED"))

		other.stop()
		require.NoError(t, g.RecordAct(t.Context(), act(true)))
		require.NoError(t, rdb.Del(t.Context(), key+":lease").Err())
		calls = unreachable.callCount()
		testkit.Until(t, func() bool { return unreachable.callCount() > calls }, "it tries again")
		require.Greater(t, time.Since(start), audit.LeaseLife, "not as long as the lease lives")
	})
}

// An outcome that finds no room in the stream stays in memory. The act after it is stored in Redis.
func TestActsPassOutcomes(t *testing.T) {
	t.Parallel()
	rdb, key := stream(t)
	fill(t, rdb, key, audit.MaxWaiting/2)
	require.NoError(t, rdb.Set(t.Context(), key+":lease", "another", time.Hour).Err())
	b := downBroker()
	g := newGateway(t, b, rdb, key)
	outcome := act(true)
	g.RecordOutcome(outcome, audit.Outcome{Status: 200})
	require.True(t, g.HoldAct(act(true)))
	g.run()
	testkit.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == audit.MaxWaiting/2+1 }, "the act is in Redis")
	b.setDown(false)
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACT_ENDED")) == 1 }, "the outcome")
	require.Equal(t, []string{outcome.ID.String()}, b.acts(t, "OPERATOR_ACT_ENDED"))
}
