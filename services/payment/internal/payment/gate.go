package payment

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

const (
	// Confirmations stop when the oldest payment event that the ticket service has not applied is
	// older than closeAbove, and resume when it is younger than openBelow. A claim lasts 10 min, so
	// most of that time is left for the event of a new payment.
	closeAbove = 2 * time.Minute
	openBelow  = 30 * time.Second
	watchEvery = 2 * time.Second
	// pausedRetry is the Retry-After of a refused confirmation.
	pausedRetry = 10 * time.Second
)

// EventBacklog measures how late payment events are published.
type EventBacklog interface {
	// OldestEvent returns the age of the oldest payment event that is neither published nor parked.
	OldestEvent(ctx context.Context) (time.Duration, error)
}

// Gate refuses confirmations while the ticket service applies payment events too late. Otherwise a
// new payment's event would wait behind older ones, and its reservation would expire meanwhile.
// After a failed measurement the last value counts. Each call may reach another replica of the
// ticket service, and a replica without a connection to Kafka returns an old measurement. Only the
// latest counts, so that the gate does not open and close in quick succession.
type Gate struct {
	events  EventBacklog
	tickets Tickets
	now     func() time.Time

	// Ages of the oldest event not published, and of the oldest not applied. Only Measure uses them.
	unpublishedAge, unappliedAge time.Duration
	measured                     time.Time // when the ticket service measured unappliedAge; zero: never

	closed atomic.Bool
	// maxExtension is the longest time by which payments may extend a hold; 0: not known yet.
	maxExtension atomic.Int64
}

// NewGate makes an open gate.
func NewGate(events EventBacklog, tickets Tickets, now func() time.Time) *Gate {
	return &Gate{events: events, tickets: tickets, now: now}
}

func (g *Gate) Closed() bool { return g.closed.Load() }

// Measure opens or closes the gate, and returns the age of the oldest event not applied. An error
// says which dependency did not answer. Measure is not safe for concurrent use.
func (g *Gate) Measure(ctx context.Context) (oldest time.Duration, err error) {
	unpublished, err := g.events.OldestEvent(ctx)
	if err == nil {
		g.unpublishedAge = unpublished
	}
	if ticketErr := g.measureTicket(ctx); err == nil {
		err = ticketErr
	}
	oldest = max(g.unpublishedAge, g.unappliedAge)
	g.closed.Store(oldest > closeAbove || g.closed.Load() && oldest >= openBelow)
	return oldest, err
}

// measureTicket asks the ticket service for the age of the oldest payment event not applied.
func (g *Gate) measureTicket(ctx context.Context) error {
	now := g.now()
	got, err := g.tickets.Settlement(ctx)
	if err != nil {
		return err
	}
	if measured := now.Add(-got.MeasuredAgo); !measured.Before(g.measured) {
		g.unappliedAge, g.measured = got.Oldest, measured
	}
	g.maxExtension.Store(int64(got.MaxExtension))
	return nil
}

// WatchGate opens and closes the gate until ctx ends.
func (s *Service) WatchGate(ctx context.Context) error {
	return loop.Every(ctx, watchEvery, s.MeasureGate)
}

// MeasureGate measures once, opens or closes the gate accordingly, and reports the measurement.
func (s *Service) MeasureGate(ctx context.Context) {
	wasClosed := s.gate.Closed()
	oldest, err := s.gate.Measure(ctx)
	closed := s.gate.Closed()
	switch {
	case ctx.Err() != nil:
		return
	case closed && !wasClosed:
		s.log.ErrorContext(ctx, "confirmations are refused: payments are not settled", "oldest_seconds", oldest.Seconds())
	case wasClosed && !closed:
		s.log.InfoContext(ctx, "confirmations are taken again", "oldest_seconds", oldest.Seconds())
	case err != nil:
		s.log.DebugContext(ctx, "age of the oldest unsettled payment not known", "error", err)
	}
	s.opts.Observe.settled(oldest, closed)
}

// CheckHolds returns an error if the ticket service extends holds for less time than a provider
// needs: seats that were paid for would be sold again. It returns nil until that limit is known.
func (s *Service) CheckHolds(context.Context) error {
	allowed := time.Duration(s.gate.maxExtension.Load())
	for name, provider := range s.providers.ByName {
		if need := provider.Capabilities().extension(); allowed > 0 && need > allowed {
			return fmt.Errorf("provider %s needs holds that are extended by %s, and ticket's HOLD_MAX_EXTENSION is %s", name, need, allowed)
		}
	}
	return nil
}

// gateError returns the error that refuses confirmations while the gate is closed, otherwise nil.
func (s *Service) gateError() error {
	if s.gate.Closed() {
		return ErrSettlementDelayed.WithRetry(pausedRetry)
	}
	return nil
}
