package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/telemetry/metricstest"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/audit"
	stats "urr.guru/services/stats/internal/kafka"
)

const actID = "01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20"

// kept is a fake ActKeeper that collects acts and outcomes.
type kept struct {
	acts  []audit.Act
	ended []audit.Ended
	other int64 // what Keep returns
}

func (k *kept) Keep(_ context.Context, acts []audit.Act, ended []audit.Ended) (int64, error) {
	k.acts, k.ended = append(k.acts, acts...), append(k.ended, ended...)
	return k.other, nil
}

func acted() *eventsv1.AuditEvent {
	return &eventsv1.AuditEvent{
		Type: "OPERATOR_ACTED", ActId: actID, UserId: "ann", Address: "203.0.113.7", Method: "PUT", Route: "/t/{event_id}", Path: "/t/e",
		EventId: "e", RequestId: "r", Body: `{"threshold":5}`, BodySha256: "5e", OccurredAt: timestamppb.New(noon),
	}
}

func ended() *eventsv1.AuditEvent {
	e := acted()
	e.Type, e.Status, e.Code, e.EndedAt = "OPERATOR_ACT_ENDED", proto.Int32(409), proto.String("CONFLICT"), timestamppb.New(noon.Add(time.Second))
	return e
}

// An outcome brings only itself, whatever else its record has: a record that claims another user, path
// or body for an act changes none of these.
func TestKeep(t *testing.T) {
	t.Parallel()
	claimed := ended()
	claimed.UserId, claimed.Path, claimed.Body = "innocent", "/elsewhere", "{}"
	claimed.Entries = &eventsv1.EntryCounts{Total: 3, Added: 2, Removed: 1}
	var got kept
	require.NoError(t, stats.Keep(t.Context(), &got, []kafka.Record{
		record(t, "audit-events", "a", 0, acted()), record(t, "audit-events", "b", 1, claimed),
		{Topic: "audit-events", EventID: "c", Value: []byte(`{"type":"OPERATOR_SLEPT","hours":7}`)},
	}))
	want := kept{
		acts: []audit.Act{{
			ID: uuid.MustParse(actID), At: noon, UserID: "ann", Address: "203.0.113.7", Method: "PUT", Route: "/t/{event_id}", Path: "/t/e",
			EventID: "e", RequestID: "r", Body: `{"threshold":5}`, BodySHA256: "5e",
		}},
		ended: []audit.Ended{{
			ActID: uuid.MustParse(actID), EventID: "e", BodySHA256: "5e", Outcome: audit.Outcome{
				Status: 409, Code: "CONFLICT", At: noon.Add(time.Second), Entries: &audit.EntryCounts{Total: 3, Added: 2, Removed: 1},
			},
		}},
	}
	require.Equal(t, want, got)

	got = kept{}
	require.NoError(t, stats.Keep(t.Context(), &got, []kafka.Record{
		{Topic: "audit-events", EventID: "c", Value: []byte(`{"type":"OPERATOR_SLEPT","hours":7}`)},
	}))
	require.Equal(t, kept{}, got, "a type that is newer than this code")
}

func TestOtherOutcomesAreCounted(t *testing.T) { //nolint:paralleltest // it reads a counter of the process
	count := func() float64 {
		n, _ := metricstest.MetricSum(t, "urr_audit_other_outcomes_total", nil)
		return n
	}
	before := count()
	require.NoError(t, stats.Keep(t.Context(), &kept{other: 2}, []kafka.Record{record(t, "audit-events", "b", 1, ended())}))
	require.InDelta(t, 2, count()-before, 0)
}

func TestUnreadableActsArePoison(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		e     *eventsv1.AuditEvent
		spoil func(*eventsv1.AuditEvent)
	}{
		"no id":            {acted(), func(e *eventsv1.AuditEvent) { e.ActId = "" }},
		"no time":          {acted(), func(e *eventsv1.AuditEvent) { e.OccurredAt = nil }},
		"no user":          {acted(), func(e *eventsv1.AuditEvent) { e.UserId = "" }},
		"a zero in a path": {acted(), func(e *eventsv1.AuditEvent) { e.Path = "/\x00" }},
		"an end of no act": {ended(), func(e *eventsv1.AuditEvent) { e.ActId = "x" }},
		"no status":        {ended(), func(e *eventsv1.AuditEvent) { e.Status = nil }},
		"no end":           {ended(), func(e *eventsv1.AuditEvent) { e.EndedAt = nil }},
		"a zero in a code": {ended(), func(e *eventsv1.AuditEvent) { e.Code = proto.String("\x00") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spoil(c.e)
			var got kept
			err := stats.Keep(t.Context(), &got, []kafka.Record{record(t, "audit-events", "a", 0, c.e)})
			require.True(t, kafka.IsPoison(err), "got %v", err)
			require.Equal(t, kept{}, got)
		})
	}
}
