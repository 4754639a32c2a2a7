package settle

import (
	"context"
	"errors"

	"urr.guru/pkg/promotion"
)

// HandleDead handles the requests of the dead-letter queue one by one. A request with attempts
// left, whose message SQS moved because it was received too often, goes back to the queue as the
// next generation of its message. A request without attempts left fails. Unreadable messages are
// kept for operators.
func (s *Settler) HandleDead(ctx context.Context, batch []promotion.Delivery) error {
	var all []error
	for _, m := range batch {
		err := s.handleDeadLetter(ctx, m)
		if err == nil {
			err = s.dead.Delete(ctx, []promotion.Delivery{m})
		}
		after := s.opts.RetryDelay
		if errors.Is(err, ErrPromotionUnreadable) {
			err, after = nil, unreadableDelay
		}
		if err != nil || after == unreadableDelay { // SQS delivers the message again
			all = append(all, err, s.dead.Release(ctx, []promotion.Delivery{m}, after))
		}
	}
	return errors.Join(all...)
}

func (s *Settler) handleDeadLetter(ctx context.Context, m promotion.Delivery) error {
	requests, err := promotion.DecodeBody(m.Body)
	if err != nil {
		l := promotion.NewDeadLetter(m.ID, m.SentAt)
		l.Body, l.ErrorCode, l.ErrorMessage = m.Body, "UNREADABLE", err.Error()
		return s.store.PutDeadLetter(ctx, l, nil)
	}
	for _, message := range requests { // more than one if SQS has moved the message
		if err := s.handleDead(ctx, m, message); err != nil {
			return err
		}
	}
	return nil
}

func (s *Settler) handleDead(ctx context.Context, m promotion.Delivery, message promotion.Message) error {
	snapshot, err := s.store.Snapshot(ctx, []promotion.Message{message})
	if err != nil {
		return err
	}
	if unreadable := snapshot.Unreadable[message.RequestID]; unreadable != nil {
		l := newDeadLetter(m, message)
		l.ErrorCode, l.ErrorMessage = string(promotion.FailedSerde), unreadable.Error()
		return s.store.PutUnreadable(ctx, l, message)
	}
	r, found := snapshot.Requests[message.RequestID]
	if !found || r.Status.Final() || r.EnteredAt != 0 || message.Gen < r.Gen {
		return nil
	}
	if r.Attempts < s.opts.MaxAttempts {
		return s.sendBack(ctx, r)
	}
	l := newDeadLetter(m, message)
	l.ErrorCode, l.ErrorMessage = r.ErrorCode, r.ErrorMessage
	end := r.Failed(s.millis(), promotion.FailedWorker, promotion.Failure{Class: promotion.Retryable, Code: r.ErrorCode, Message: r.ErrorMessage})
	return s.store.PutDeadLetter(ctx, l, &end)
}

// newDeadLetter makes a dead letter of one request in a received message. It has the same key each
// time the message is received.
func newDeadLetter(m promotion.Delivery, message promotion.Message) promotion.DeadLetter {
	l := promotion.NewDeadLetter(message.RequestID, m.SentAt)
	l.RequestID, l.EventID, l.Body = message.RequestID, message.EventID, promotion.Body(message)
	return l
}

// sendBack sends a request to the queue under a new generation. If the process dies before Send,
// the ingest service finds the request's marker and sends it.
func (s *Settler) sendBack(ctx context.Context, r promotion.Request) error {
	c := r.Requeued()
	if err := s.store.Change(ctx, c); err != nil {
		return err
	}
	return s.Send(ctx, c.After)
}

// Send sends a request to the queue under its current generation, and then marks it as queued in
// the store. The generation grows each time the request goes back to the queue.
func (s *Settler) Send(ctx context.Context, r promotion.Request) error {
	if err := s.queue.Send(ctx, []promotion.Outgoing{{Message: promotion.MessageOf(&r)}})[0]; err != nil {
		return err
	}
	_, err := s.store.MarkQueued(ctx, []promotion.Request{r}, s.millis())
	return err
}
