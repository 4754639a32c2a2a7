package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/audit"
)

// ActKeeper stores the acts of operators. The acts of one call have different ids.
type ActKeeper interface {
	Keep(ctx context.Context, acts []audit.Act) error
}

var _ ActKeeper = audit.Store(nil)

// keepActs decodes the acts in the records and has keeper store them. It skips records of other
// types.
func keepActs(ctx context.Context, keeper ActKeeper, recs []kafka.Record) error {
	var acts []audit.Act
	for _, r := range recs {
		var e eventsv1.AuditEvent
		if err := kafka.Decode(r, &e); err != nil {
			return err
		}
		if e.GetType() != events.OperatorActed && e.GetType() != events.OperatorActEnded {
			continue
		}
		a, err := toAct(&e)
		if err != nil {
			return kafka.Poison(fmt.Errorf("%s event %s: %w", r.Topic, r.EventID, err))
		}
		acts = append(acts, a)
	}
	if len(acts) == 0 {
		return nil
	}
	return keeper.Keep(ctx, audit.Merge(acts))
}

// toAct converts a Kafka event to an act. It fails for values that the database always refuses.
func toAct(e *eventsv1.AuditEvent) (a audit.Act, err error) {
	id, err := uuid.Parse(e.GetActId())
	if err != nil {
		return a, fmt.Errorf("actId: %w", err)
	}
	if e.GetOccurredAt().CheckValid() != nil {
		return a, errors.New("no occurredAt")
	}
	a = audit.Act{
		ID: id, At: e.GetOccurredAt().AsTime(), UserID: e.GetUserId(), Address: e.GetAddress(), Method: e.GetMethod(), Route: e.GetRoute(),
		Path: e.GetPath(), EventID: e.GetEventId(), RequestID: e.GetRequestId(), Body: e.GetBody(), BodySHA256: e.GetBodySha256(),
	}
	if e.GetType() == events.OperatorActEnded {
		if e.GetStatus() == 0 || e.GetEndedAt().CheckValid() != nil {
			return a, errors.New("no outcome")
		}
		a.Outcome = &audit.Outcome{Status: int(e.GetStatus()), Code: e.GetCode(), At: e.GetEndedAt().AsTime()}
	}
	for _, text := range []string{a.UserID, a.Address, a.Method, a.Route, a.Path, a.EventID, a.RequestID, a.Body, a.BodySHA256, e.GetCode()} {
		if strings.Contains(text, "\x00") {
			return a, errors.New("a zero byte")
		}
	}
	return a, nil
}
