package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/kafka"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/audit"
	stats "urr.guru/services/stats/internal/kafka"
)

const actID = "01990f5e-7b5a-7c3e-9d1a-3b5c7d9e1f20"

// acts is a fake ActKeeper that collects the acts.
type acts []audit.Act

func (a *acts) Keep(_ context.Context, kept []audit.Act) error {
	*a = append(*a, kept...)
	return nil
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

func TestKeep(t *testing.T) {
	t.Parallel()
	var kept acts
	require.NoError(t, stats.Keep(t.Context(), &kept, []kafka.Record{
		record(t, "audit-events", "a", 0, acted()), record(t, "audit-events", "b", 1, ended()),
		{Topic: "audit-events", EventID: "c", Value: []byte(`{"type":"OPERATOR_SLEPT","hours":7}`)},
	}))
	want := audit.Act{
		ID: uuid.MustParse(actID), At: noon, UserID: "ann", Address: "203.0.113.7", Method: "PUT", Route: "/t/{event_id}", Path: "/t/e",
		EventID: "e", RequestID: "r", Body: `{"threshold":5}`, BodySHA256: "5e",
		Outcome: &audit.Outcome{Status: 409, Code: "CONFLICT", At: noon.Add(time.Second)},
	}
	require.Empty(t, cmp.Diff(acts{want}, kept))

	kept = nil
	require.NoError(t, stats.Keep(t.Context(), &kept, []kafka.Record{
		{Topic: "audit-events", EventID: "c", Value: []byte(`{"type":"OPERATOR_SLEPT","hours":7}`)},
	}))
	require.Empty(t, kept, "a type that is newer than this code")
}

func TestUnreadableActsArePoison(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*eventsv1.AuditEvent){
		"no id":            func(e *eventsv1.AuditEvent) { e.ActId = "" },
		"no time":          func(e *eventsv1.AuditEvent) { e.OccurredAt = nil },
		"no status":        func(e *eventsv1.AuditEvent) { e.Status = nil },
		"no end":           func(e *eventsv1.AuditEvent) { e.EndedAt = nil },
		"a zero in a path": func(e *eventsv1.AuditEvent) { e.Path = "/\x00" },
		"a zero in a code": func(e *eventsv1.AuditEvent) { e.Code = proto.String("\x00") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := ended()
			spoil(e)
			var kept acts
			err := stats.Keep(t.Context(), &kept, []kafka.Record{record(t, "audit-events", "a", 0, e)})
			require.True(t, kafka.IsPoison(err), "got %v", err)
			require.Empty(t, kept)
		})
	}
}
