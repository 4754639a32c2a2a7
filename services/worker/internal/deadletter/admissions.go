package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"urr.guru/pkg/promotion"
)

// Queue is an SQS queue. It deletes received messages, and accepts forwarded messages.
type Queue interface {
	Delete(ctx context.Context, messages []promotion.Delivery) error
	Forward(ctx context.Context, m promotion.Delivery, id string) error
}

// Admissions handles the messages about admitted visitors from the queue service, and keeps those
// that it cannot read. It logs and counts every admission; it neither logs nor stores entry tokens.
type Admissions struct {
	store Store
	// queue is nil if admissions are not announced.
	queue Queue
	count func(action string)
	log   *slog.Logger
}

// NewAdmissions returns the Admissions of a queue. If queue is nil, only dead letters are served.
func NewAdmissions(store Store, queue Queue, count func(action string), log *slog.Logger) *Admissions {
	return &Admissions{store: store, queue: queue, count: count, log: log}
}

// admission is the part of a message that may be kept: all but the token.
type admission struct {
	Action    string `json:"action,omitempty"`
	EventID   string `json:"eventId"`
	UserID    string `json:"userId"`
	Timestamp int64  `json:"timestamp,omitempty"` // epoch ms
}

var errIncomplete = errors.New("no eventId or no userId")

// decode parses a message. Its error quotes nothing of the message, which contains a token.
func decode(body string) (a admission, err error) {
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		return admission{}, fmt.Errorf("%d bytes are no admission in JSON", len(body))
	}
	if a.EventID == "" || a.UserID == "" {
		return a, errIncomplete
	}
	return a, nil
}

func readable(body string) bool {
	_, err := decode(body)
	return err == nil
}

// Handle logs, counts and deletes received messages. If the process dies before the deletion, the
// messages are logged and counted twice, which is harmless.
func (a *Admissions) Handle(ctx context.Context, batch []promotion.Delivery) error {
	for _, m := range batch {
		adm, err := decode(m.Body)
		if err != nil {
			if err := a.keepUnreadable(ctx, m, adm, "UNREADABLE", err); err != nil {
				return err
			}
			continue
		}
		a.count(actionLabel(adm.Action))
		a.log.InfoContext(ctx, "admission", "action", adm.Action, "event_id", adm.EventID, "user_id", adm.UserID,
			"admitted_at", time.UnixMilli(adm.Timestamp).UTC())
	}
	return a.queue.Delete(ctx, batch)
}

// HandleDead returns a function that stores the messages of the dead-letter queue. SQS has moved
// them there, since no replica has handled them.
func (a *Admissions) HandleDead(dead Queue) func(ctx context.Context, batch []promotion.Delivery) error {
	return func(ctx context.Context, batch []promotion.Delivery) error {
		for _, m := range batch {
			adm, err := decode(m.Body)
			code := "UNREADABLE"
			if err == nil {
				code, err = "RECEIVED_TOO_OFTEN", errors.New("it was received often and not taken")
			}
			if err := a.keepUnreadable(ctx, m, adm, code, err); err != nil {
				return err
			}
		}
		return dead.Delete(ctx, batch)
	}
}

// keepUnreadable stores a message, without its token, as a dead letter. A message that is received
// again gets the same key.
func (a *Admissions) keepUnreadable(ctx context.Context, m promotion.Delivery, adm admission, code string, cause error) error {
	l := promotion.NewDeadLetter(m.ID, m.SentAt)
	l.Queue, l.EventID, l.ErrorCode, l.ErrorMessage = promotion.AdmissionDeadLetters, adm.EventID, code, cause.Error()
	if adm != (admission{}) {
		body, err := json.Marshal(adm)
		if err != nil {
			return fmt.Errorf("admission %s: %w", m.ID, err)
		}
		l.Body = string(body)
	}
	a.count("unreadable")
	a.log.WarnContext(ctx, "admission not read", "message_id", m.ID, "error", cause)
	return a.store.PutAdmission(ctx, l)
}

// actionLabel returns the value of a metric's label for an action. There are only two values.
func actionLabel(name string) string {
	if name == "admitted" {
		return name
	}
	return "other"
}
