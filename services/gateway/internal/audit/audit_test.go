package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"urr.guru/pkg/clocktest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/waittest"
	"urr.guru/services/gateway/internal/audit"

	eventsv1 "urr.guru/proto/gen/urr/events/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// broker is Kafka; it hangs until the deadline of the call while it is down.
type broker struct {
	mu   sync.Mutex
	down bool
	// refuses is the user whose records fail, "" for none.
	refuses string
	calls   int
	recs    []kafka.Record
}

func (b *broker) set(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func (b *broker) refuse(user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = user
}

// called is how often it was asked to take records.
func (b *broker) called() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

func (b *broker) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	results := make([]error, len(recs))
	_, bounded := ctx.Deadline()
	for i, r := range recs {
		switch {
		case !bounded:
			results[i] = errors.New("a call without a deadline")
		case b.down, b.refuses != "" && string(r.Key) == b.refuses:
			results[i] = errs.ErrUnavailable
		default:
			b.recs = append(b.recs, r)
		}
	}
	return results
}

// acts are the ids of the acts whose events of a type have arrived, in order.
func (b *broker) acts(t *testing.T, kind string) (list []string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.recs {
		if e := decoded(t, r); e.GetType() == kind {
			list = append(list, e.GetActId())
		}
	}
	return list
}

func decoded(t *testing.T, r kafka.Record) *eventsv1.AuditEvent {
	t.Helper()
	var e eventsv1.AuditEvent
	require.NoError(t, kafka.Decode(r, &e))
	return &e
}

// gateway is a Log that a test may run.
type gateway struct {
	*audit.Log

	t    *testing.T
	stop func()
}

func newGateway(t *testing.T, b *broker, rdb redis.UniversalClient, key string) *gateway {
	t.Helper()
	return &gateway{Log: audit.New(b, rdb, key, slog.New(slog.DiscardHandler), clocktest.New(noon).Now), t: t}
}

// run publishes what waits until end, at the latest until the test ends.
func (g *gateway) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(g.t, <-done)
	})
	g.t.Cleanup(g.stop)
}

func act(stops bool) *audit.Act {
	return &audit.Act{
		ID: ids.NewV7(), At: noon, UserID: "ann", Address: "203.0.113.7", Method: "PUT", Route: "/t/{event_id}", Path: "/t/e", EventID: "e",
		RequestID: ids.NewV7().String(), Body: []byte(`{"threshold":5}`), Stops: stops,
	}
}

func TestActsGoToKafka(t *testing.T) {
	t.Parallel()
	b := &broker{}
	g := newGateway(t, b, nil, "")
	a := act(false)
	require.NoError(t, g.Begin(t.Context(), a))
	r := b.recs[0]
	require.Equal(t, "audit-events", r.Topic)
	require.Equal(t, "ann", string(r.Key))
	require.Equal(t, a.ID.String(), r.Headers[kafka.HeaderID])
	require.Equal(t, "OPERATOR_ACTED", r.Headers[kafka.HeaderType])
	e := decoded(t, r)
	require.Equal(t, `{"threshold":5}`, e.GetBody())
	require.Len(t, e.GetBodySha256(), 64)
	require.Equal(t, noon, e.GetOccurredAt().AsTime())

	g.run()
	g.End(a, audit.Outcome{Status: 409, Code: "CONFLICT"})
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACT_ENDED")) == 1 }, "the outcome")
	outcome := b.recs[1]
	require.NotEqual(t, r.Headers[kafka.HeaderID], outcome.Headers[kafka.HeaderID], "an event of its own")
	require.Equal(t, a.ID.String(), decoded(t, outcome).GetActId())
	require.EqualValues(t, 409, decoded(t, outcome).GetStatus())
	require.Equal(t, "CONFLICT", decoded(t, outcome).GetCode())
}

// Kafka is away: the records of acts that stop a sale wait in Redis, also when their gateway dies.
// Another one publishes them, in order, once Kafka is back.
func TestRecordsWaitInRedis(t *testing.T) {
	t.Parallel()
	for name, rdb := range map[string]redis.UniversalClient{"single": redistest.Open(t), "cluster": redistest.OpenCluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Prefix
			if name == "cluster" {
				prefix = redistest.ClusterPrefix
			}
			key := "{" + prefix(t) + "}"
			b := &broker{}
			b.set(true)
			dead := newGateway(t, b, rdb, key)
			require.ErrorIs(t, dead.Begin(t.Context(), act(false)), errs.ErrAuditUnavailable)
			const many = 250 // more than one call moves
			var want []string
			for range many {
				a := act(true)
				require.NoError(t, dead.Begin(t.Context(), a))
				want = append(want, a.ID.String())
			}
			n, err := rdb.XLen(t.Context(), key).Result()
			require.NoError(t, err)
			require.EqualValues(t, many, n)

			b.set(false)
			for range 3 {
				newGateway(t, b, rdb, key).run()
			}
			waittest.Until(t, func() bool {
				n, err := rdb.XLen(t.Context(), key).Result()
				require.NoError(t, err)
				return n == 0
			}, "all records are moved")
			require.Equal(t, want, b.acts(t, "OPERATOR_ACTED"), "once each, since one gateway moves at a time")
		})
	}
}

// A gateway that dies between the publishing and the removal causes a repetition, not a loss.
func TestMoveIsRepeated(t *testing.T) {
	t.Parallel()
	rdb, key := redistest.Open(t), "{"+redistest.Prefix(t)+"}"
	b := &broker{}
	b.set(true)
	g := newGateway(t, b, rdb, key)
	a := act(true)
	require.NoError(t, g.Begin(t.Context(), a))
	entries, err := rdb.XRange(t.Context(), key, "-", "+").Result()
	require.NoError(t, err)
	b.set(false)
	g.run()
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == 1 }, "the first publication")
	require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: entries[0].Values}).Err())
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == 2 }, "the second")
	require.Equal(t, []string{a.ID.String(), a.ID.String()}, b.acts(t, "OPERATOR_ACTED"))
	require.Equal(t, b.recs[0].Headers[kafka.HeaderID], b.recs[1].Headers[kafka.HeaderID], "consumers recognise it")
}

// What is no record must not keep the others from being published.
func TestForeignEntriesAreDropped(t *testing.T) {
	t.Parallel()
	rdb, key := redistest.Open(t), "{"+redistest.Prefix(t)+"}"
	for _, values := range [][]any{{"other", "x"}, {"event", "no JSON"}, {"event", `{"actId":"x"}`}} {
		require.NoError(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: values}).Err())
	}
	b := &broker{}
	b.set(true)
	g := newGateway(t, b, rdb, key)
	a := act(true)
	require.NoError(t, g.Begin(t.Context(), a))
	b.set(false)
	g.run()
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == 1 }, "the record behind them")
	waittest.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == 0 }, "nothing is left")
}

// Kafka and Redis are both away: an act that stops a sale is still possible. Its record waits in the
// process, for whichever of the two is back first.
func TestRecordsWaitInMemory(t *testing.T) {
	t.Parallel()
	gone := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = gone.Close() })
	b := &broker{}
	b.set(true)
	g := newGateway(t, b, gone, "{x}")
	stopping := act(true)
	require.NoError(t, g.Begin(t.Context(), stopping))
	require.ErrorIs(t, g.Begin(t.Context(), act(false)), errs.ErrAuditUnavailable)
	g.run()
	g.End(stopping, audit.Outcome{Status: 200})
	b.set(false)
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACT_ENDED")) == 1 }, "the outcome arrives")
	require.Equal(t, []string{stopping.ID.String()}, b.acts(t, "OPERATOR_ACTED"))
}

// A process that ends puts what waits in it into Redis.
func TestEndOfTheProcess(t *testing.T) {
	t.Parallel()
	rdb, key := redistest.Open(t), "{"+redistest.Prefix(t)+"}"
	b := &broker{}
	b.set(true)
	g := newGateway(t, b, rdb, key)
	g.run()
	a := act(true)
	require.NoError(t, g.Begin(t.Context(), a))
	g.End(a, audit.Outcome{Status: 200})
	g.stop()
	require.EqualValues(t, 2, rdb.XLen(t.Context(), key).Val())
}

// The stream is bounded. Outcomes leave room for acts, and an act that finds none is possible.
func TestStreamIsBounded(t *testing.T) {
	t.Parallel()
	rdb, key := redistest.Open(t), "{"+redistest.Prefix(t)+"}"
	fill := func(n int) {
		t.Helper()
		_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range n {
				p.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []any{"event", fmt.Sprint(i)}})
			}
			return nil
		})
		require.NoError(t, err)
	}
	b := &broker{}
	b.set(true)
	g := newGateway(t, b, rdb, key)
	fill(audit.MaxWaiting / 2)
	g.run()
	g.End(act(true), audit.Outcome{Status: 200})
	g.stop()
	require.EqualValues(t, audit.MaxWaiting/2, rdb.XLen(t.Context(), key).Val(), "an outcome")
	require.NoError(t, g.Begin(t.Context(), act(true)))
	require.EqualValues(t, audit.MaxWaiting/2+1, rdb.XLen(t.Context(), key).Val(), "an act")
	fill(audit.MaxWaiting/2 - 1)
	require.NoError(t, g.Begin(t.Context(), act(true)))
	require.EqualValues(t, audit.MaxWaiting, rdb.XLen(t.Context(), key).Val())
}

// Some records fail, more than one call moves: the others arrive once each, and those later.
func TestFailedRecordsDoNotBlock(t *testing.T) {
	t.Parallel()
	rdb, key := redistest.Open(t), "{"+redistest.Prefix(t)+"}"
	b := &broker{}
	b.set(true)
	g := newGateway(t, b, rdb, key)
	begin := func(user string) string {
		t.Helper()
		a := act(true)
		a.UserID = user
		require.NoError(t, g.Begin(t.Context(), a))
		return a.ID.String()
	}
	var bobs, anns []string
	for i := range 300 {
		bobs = append(bobs, begin("bob"))
		if i >= 220 {
			anns = append(anns, begin("ann"))
		}
	}
	b.set(false)
	b.refuse("bob")
	g.run()
	waittest.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == int64(len(bobs)) }, "the others are moved")
	calls := b.called()
	waittest.Until(t, func() bool { return b.called() > calls }, "another attempt")
	require.Equal(t, anns, b.acts(t, "OPERATOR_ACTED"), "once each")
	b.refuse("")
	waittest.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == 0 }, "all are moved")
	require.ElementsMatch(t, append(anns, bobs...), b.acts(t, "OPERATOR_ACTED"), "once each")
}

// The same in memory.
func TestFailedRecordsAreHeld(t *testing.T) {
	t.Parallel()
	b := &broker{}
	b.refuse("bob")
	g := newGateway(t, b, nil, "")
	var want []string
	for _, user := range []string{"bob", "ann"} {
		a := act(true)
		a.UserID = user
		require.True(t, g.HoldAct(a))
		want = append([]string{a.ID.String()}, want...)
	}
	g.run()
	waittest.Until(t, func() bool { return b.called() >= 2 }, "two attempts")
	require.Equal(t, want[:1], b.acts(t, "OPERATOR_ACTED"), "once")
	b.refuse("")
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) > 1 }, "the other")
	require.Equal(t, want, b.acts(t, "OPERATOR_ACTED"))
}

// A gateway that cannot reach Kafka leaves the records to one that can.
func TestLeaseIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, rdb := range map[string]redis.UniversalClient{"single": redistest.Open(t), "cluster": redistest.OpenCluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Prefix
			if name == "cluster" {
				prefix = redistest.ClusterPrefix
			}
			key := "{" + prefix(t) + "}"
			cut, whole := &broker{}, &broker{}
			cut.set(true)
			g := newGateway(t, cut, rdb, key)
			a := act(true)
			require.NoError(t, g.Begin(t.Context(), a))
			calls := cut.called()
			start := time.Now()
			g.run()
			waittest.Until(t, func() bool { return cut.called() > calls }, "it holds the lease")
			waittest.Until(t, func() bool { return rdb.Exists(t.Context(), key+":lease").Val() == 0 }, "it gives the lease up")
			other := newGateway(t, whole, rdb, key)
			other.run()
			waittest.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == 0 }, "the other moves the record")
			require.Equal(t, []string{a.ID.String()}, whole.acts(t, "OPERATOR_ACTED"))

			other.stop()
			require.NoError(t, g.Begin(t.Context(), act(true)))
			require.NoError(t, rdb.Del(t.Context(), key+":lease").Err())
			calls = cut.called()
			waittest.Until(t, func() bool { return cut.called() > calls }, "it tries again")
			require.Greater(t, time.Since(start), audit.LeaseLife, "not as long as the lease lives")
		})
	}
}

// Outcomes leave half of the memory to acts, and acts are dropped only when they fill all of it.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	b := &broker{}
	b.set(true)
	var out strings.Builder
	l := audit.New(b, nil, "", slog.New(slog.NewTextHandler(&out, nil)), clocktest.New(noon).Now)
	g := &gateway{Log: l, t: t}
	for range audit.MaxHeld {
		g.End(act(true), audit.Outcome{Status: 200})
	}
	first := act(true)
	require.NoError(t, g.Begin(t.Context(), first))
	for range audit.MaxHeld - 1 {
		require.True(t, g.HoldAct(act(true)), "in the place of an outcome")
	}
	require.NotContains(t, out.String(), "dropped")
	before := counted(t, "dropped")
	require.NoError(t, g.Begin(t.Context(), act(true)), "it is served all the same")
	require.Contains(t, out.String(), "its record is dropped")
	require.InDelta(t, before+1, counted(t, "dropped"), 0)
	b.set(false)
	g.run()
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == audit.MaxHeld }, "the acts")
	require.Equal(t, first.ID.String(), b.acts(t, "OPERATOR_ACTED")[0])
	require.Empty(t, b.acts(t, "OPERATOR_ACT_ENDED"))
}

// counted is how many acts were recorded in a place.
func counted(t *testing.T, place string) float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "urr_audit_acts_total" && m.GetLabel()[0].GetValue() == place {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no count of %s", place)
	return 0
}

// The stream has no room for an outcome: it waits, and the act behind it goes to Redis.
func TestActsPassOutcomes(t *testing.T) {
	t.Parallel()
	rdb, key := redistest.Open(t), "{"+redistest.Prefix(t)+"}"
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range audit.MaxWaiting / 2 {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []any{"event", fmt.Sprint(i)}})
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, rdb.Set(t.Context(), key+":lease", "another", time.Hour).Err())
	b := &broker{}
	b.set(true)
	g := newGateway(t, b, rdb, key)
	outcome := act(true)
	g.End(outcome, audit.Outcome{Status: 200})
	require.True(t, g.HoldAct(act(true)))
	g.run()
	waittest.Until(t, func() bool { return rdb.XLen(t.Context(), key).Val() == audit.MaxWaiting/2+1 }, "the act is in Redis")
	b.set(false)
	waittest.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACT_ENDED")) == 1 }, "the outcome")
	require.Equal(t, []string{outcome.ID.String()}, b.acts(t, "OPERATOR_ACT_ENDED"))
}

// A client that has left does not make its act happen.
func TestCancelledActs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &broker{}
	b.set(true)
	err := newGateway(t, b, nil, "").Begin(ctx, act(true))
	require.ErrorIs(t, err, context.Canceled)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	long := `{"title":"` + strings.Repeat("x", 9000) + `"}`
	for name, c := range map[string]struct{ body, kept, event string }{
		"none":               {body: "", kept: ""},
		"as it was sent":     {body: `{ "userId": "bob", "n": 12345678901234567890 }`, kept: `{ "userId": "bob", "n": 12345678901234567890 }`},
		"a secret":           {body: `{"n":12345678901234567890,"clientSecret":"hush"}`, kept: `{"clientSecret":"***","n":12345678901234567890}`},
		"a secret inside":    {body: `{"a":[{"Password":"hush"},{"apiToken":{"x":"hush"}}]}`, kept: `{"a":[{"Password":"***"},{"apiToken":"***"}]}`},
		"names its event":    {body: `{"eventId":"sale-1"}`, kept: `{"eventId":"sale-1"}`, event: "sale-1"},
		"names no event":     {body: `{"eventId":"a b"}`, kept: `{"eventId":"a b"}`},
		"too long":           {body: long},
		"no JSON":            {body: `{"password":"hush"`},
		"two values":         {body: `{} {"password":"hush"}`},
		"no UTF-8":           {body: "{\"a\":\"\xff\"}"},
		"a list":             {body: `[1]`, kept: `[1]`},
		"an escaped zero":    {body: `{"a":"\u0000"}`, kept: `{"a":"\u0000"}`},
		"an escaped member":  {body: `{"pass\u0077ord":"hush"}`, kept: `{"password":"***"}`},
		"an empty object":    {body: `{}`, kept: `{}`},
		"a repeated member":  {body: `{"token":"hush","token":1}`, kept: `{"token":"***"}`},
		"a null in a secret": {body: `{"token":null}`, kept: `{"token":"***"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &broker{}
			a := act(false)
			a.Body, a.EventID = []byte(c.body), ""
			require.NoError(t, newGateway(t, b, nil, "").Begin(t.Context(), a))
			e := decoded(t, b.recs[0])
			require.Equal(t, c.kept, e.GetBody())
			require.Equal(t, c.event, e.GetEventId())
			require.Equal(t, c.body == "", e.GetBodySha256() == "")
			require.NotContains(t, string(b.recs[0].Value), "hush")
		})
	}
}
