package audit_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/audit"
)

// While Kafka and Redis are both down, an act that stops a sale is still served. Its record is kept
// in memory until one of them is up again.
func TestRecordsWaitInMemory(t *testing.T) {
	t.Parallel()
	unreachable := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = unreachable.Close() })
	b := downBroker()
	g := newGateway(t, b, unreachable, "{x}")
	stopping := act(true)
	require.NoError(t, g.RecordAct(t.Context(), stopping))
	require.ErrorIs(t, g.RecordAct(t.Context(), act(false)), errs.ErrAuditUnavailable)
	g.run()
	g.RecordOutcome(stopping, audit.Outcome{Status: 200})
	b.setDown(false)
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACT_ENDED")) == 1 }, "the outcome arrives")
	require.Equal(t, []string{stopping.ID.String()}, b.acts(t, "OPERATOR_ACTED"))
}

// Records that Kafka refuses stay in memory, while all other records are published once each.
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
	testkit.Until(t, func() bool { return b.callCount() >= 2 }, "two attempts")
	require.Equal(t, want[:1], b.acts(t, "OPERATOR_ACTED"), "once")
	b.refuse("")
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) > 1 }, "the other")
	require.Equal(t, want, b.acts(t, "OPERATOR_ACTED"))
}

// Outcomes fill at most half of the memory. Acts are dropped only when acts fill all of it.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	b := downBroker()
	var out strings.Builder
	l := audit.New(b, nil, "", slog.New(slog.NewTextHandler(&out, nil)), testkit.NewClock(noon).Now)
	g := &gateway{Log: l, t: t}
	for range audit.MaxHeld {
		g.RecordOutcome(act(true), audit.Outcome{Status: 200})
	}
	first := act(true)
	require.NoError(t, g.RecordAct(t.Context(), first))
	for range audit.MaxHeld - 1 {
		require.True(t, g.HoldAct(act(true)), "in the place of an outcome")
	}
	require.NotContains(t, out.String(), "dropped")
	before := counted(t, "dropped")
	require.NoError(t, g.RecordAct(t.Context(), act(true)), "it is served all the same")
	require.Contains(t, out.String(), "its record is dropped")
	require.InDelta(t, before+1, counted(t, "dropped"), 0)
	b.setDown(false)
	g.run()
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACTED")) == audit.MaxHeld }, "the acts")
	require.Equal(t, first.ID.String(), b.acts(t, "OPERATOR_ACTED")[0])
	require.Empty(t, b.acts(t, "OPERATOR_ACT_ENDED"))
}

// counted returns how many acts were recorded in a place, such as Redis.
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
