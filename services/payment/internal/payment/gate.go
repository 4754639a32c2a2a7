package payment

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

const (
	// closeAbove and openBelow are the ages of the oldest unsettled payment event at which
	// confirmations stop and resume. A reservation stays claimed for 10 min, so a payment made before
	// the limit is reached has most of that time left for its event.
	closeAbove = 2 * time.Minute
	openBelow  = 30 * time.Second
	watchEvery = 2 * time.Second
	// pausedRetry is the Retry-After of a refused confirmation.
	pausedRetry = 10 * time.Second
)

// EventBacklog measures the payment events that are not published yet.
type EventBacklog interface {
	// OldestEvent returns the age of the oldest payment event that is neither published nor parked.
	OldestEvent(ctx context.Context) (time.Duration, error)
}

// Gate refuses confirmations while payments are not settled in time. Otherwise the event of a new
// payment would wait behind others, and its reservation would expire before ticket applies it.
// After a failed measurement the last value counts.
//
// Each call may reach another replica of ticket, and a replica without a connection to the brokers
// returns an old measurement. Only the latest measurement counts, so that the gate does not flap.
type Gate struct {
	events  EventBacklog
	tickets Tickets
	now     func() time.Time

	// The latest measurements, of this database and of ticket. Only Measure uses these fields.
	unpublishedAge, unappliedAge time.Duration
	measured                     time.Time // when ticket measured unappliedAge; zero: never

	closed atomic.Bool
	// maxExtension is the longest time by which payments may extend a hold; 0: not known yet.
	maxExtension atomic.Int64
}

// NewGate makes an open gate.
func NewGate(events EventBacklog, tickets Tickets, now func() time.Time) *Gate {
	return &Gate{events: events, tickets: tickets, now: now}
}

func (g *Gate) Closed() bool { return g.closed.Load() }

// Measure opens or closes the gate, and returns the age of the oldest unsettled event. An error
// names the dependency that did not answer. Measure is not safe for concurrent use.
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

// measureTicket reads the measurement of one replica of ticket.
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

// CheckHolds returns an error if ticket extends holds for less time than a provider needs: places
// that were paid for would be sold again. It returns nil until ticket has reported its limit.
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
