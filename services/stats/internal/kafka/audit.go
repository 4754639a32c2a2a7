package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/audit"
)

// otherOutcomes counts what nobody but a forger publishes: a gateway tells an act's outcome once.
var otherOutcomes = promauto.NewCounter(prometheus.CounterOpts{
	Name: "urr_audit_other_outcomes_total", Help: "Outcomes of operators' acts that say something else than the one that is stored; they change nothing.",
})

// ActKeeper stores the acts of operators and their outcomes, like audit.Store.
type ActKeeper interface {
	Keep(ctx context.Context, acts []audit.Act, ended []audit.Ended) (other int64, err error)
}

var _ ActKeeper = audit.Store(nil)

// keepActs decodes the acts and outcomes in the records and has keeper store them. It skips records
// of other types.
func keepActs(ctx context.Context, keeper ActKeeper, recs []kafka.Record) error {
	acts, ended, err := decodeActs(recs)
	if err != nil || len(acts)+len(ended) == 0 {
		return err
	}
	other, err := keeper.Keep(ctx, acts, ended)
	otherOutcomes.Add(float64(other))
	return err
}

func decodeActs(recs []kafka.Record) (acts []audit.Act, ended []audit.Ended, err error) {
	for _, r := range recs {
		var e eventsv1.AuditEvent
		if err := kafka.Decode(r, &e); err != nil {
			return nil, nil, err
		}
		switch e.GetType() {
		case events.OperatorActed:
			var a audit.Act
			a, err = toAct(&e)
			acts = append(acts, a)
		case events.OperatorActEnded:
			var o audit.Ended
			o, err = toEnded(&e)
			ended = append(ended, o)
		}
		if err != nil {
			return nil, nil, kafka.Poison(fmt.Errorf("%s event %s: %w", r.Topic, r.EventID, err))
		}
	}
	return acts, ended, nil
}

// ReadActs implements audit.Source. It leaves out records that are dead letters of the consumer.
func (r Replay) ReadActs(ctx context.Context, keep func([]audit.Act, []audit.Ended)) (since time.Time, err error) {
	return r.replay.ReadAll(ctx, events.Audit, func(recs []kafka.Record) {
		for _, rec := range recs {
			if acts, ended, err := decodeActs([]kafka.Record{rec}); err == nil {
				keep(acts, ended)
			}
		}
	})
}

// toAct converts a Kafka event to an act. It fails for values that the database always refuses, and
// without a user, which marks acts that are not stored yet.
func toAct(e *eventsv1.AuditEvent) (a audit.Act, err error) {
	id, err := actID(e)
	if err != nil {
		return a, err
	}
	if e.GetOccurredAt().CheckValid() != nil {
		return a, errors.New("no occurredAt")
	}
	if e.GetUserId() == "" {
		return a, errors.New("no userId")
	}
	a = audit.Act{
		ID: id, At: e.GetOccurredAt().AsTime(), UserID: e.GetUserId(), Address: e.GetAddress(), Method: e.GetMethod(), Route: e.GetRoute(),
		Path: e.GetPath(), EventID: e.GetEventId(), RequestID: e.GetRequestId(), Body: e.GetBody(), BodySHA256: e.GetBodySha256(),
	}
	return a, checkText(a.UserID, a.Address, a.Method, a.Route, a.Path, a.EventID, a.RequestID, a.Body, a.BodySHA256)
}

// toEnded takes from a Kafka event what it tells about the outcome; whatever else it has of the act,
// the act's own event tells.
func toEnded(e *eventsv1.AuditEvent) (o audit.Ended, err error) {
	id, err := actID(e)
	if err != nil {
		return o, err
	}
	if e.GetStatus() == 0 || e.GetEndedAt().CheckValid() != nil {
		return o, errors.New("no outcome")
	}
	o = audit.Ended{
		ActID: id, Outcome: audit.Outcome{Status: int(e.GetStatus()), Code: e.GetCode(), At: e.GetEndedAt().AsTime()},
		EventID: e.GetEventId(), BodySHA256: e.GetBodySha256(),
	}
	if c := e.GetEntries(); c != nil {
		o.Entries = &audit.EntryCounts{Total: max(0, c.GetTotal()), Added: max(0, c.GetAdded()), Removed: max(0, c.GetRemoved())}
	}
	return o, checkText(o.Code, o.EventID, o.BodySHA256)
}

func actID(e *eventsv1.AuditEvent) (uuid.UUID, error) {
	id, err := uuid.Parse(e.GetActId())
	if err != nil {
		return id, fmt.Errorf("actId: %w", err)
	}
	return id, nil
}

// checkText fails for text that PostgreSQL cannot store.
func checkText(texts ...string) error {
	if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "\x00") }) {
		return errors.New("a zero byte")
	}
	return nil
}
