package payment

import (
	"context"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

const (
	// closeAbove and openBelow are the ages of the oldest unsettled event at which confirmations
	// stop and resume. A reservation stays claimed for 10 min, so a payment made before the limit
	// is reached has most of that time left for its event.
	closeAbove = 2 * time.Minute
	openBelow  = 30 * time.Second
	watchEvery = 2 * time.Second
	// pausedRetry is the advised retry time of a refused confirmation.
	pausedRetry = 10 * time.Second
)

// EventBacklog is the store's measurement of unpublished events.
type EventBacklog interface {
	// OldestEvent returns the age of the oldest payment event that is neither published nor parked.
	OldestEvent(ctx context.Context) (time.Duration, error)
}

// Gate stops confirmations while payments are not settled in time: the event of a new payment would
// wait behind the others, and its reservation would end before ticket applies it. A measurement
// that fails keeps its last value.
//
// Each call may reach another replica of ticket, so measurements differ: a replica cut off from the
// brokers returns an old one. The latest measurement counts; otherwise the gate would flap.
type Gate struct {
	events  EventBacklog
	tickets Tickets
	now     func() time.Time

	// Used by Watch only.
	unpublishedAge, unappliedAge time.Duration
	measured                     time.Time // when ticket measured unappliedAge; zero: never

	closed atomic.Bool
}

// NewGate makes an open gate.
func NewGate(events EventBacklog, tickets Tickets, now func() time.Time) *Gate {
	return &Gate{events: events, tickets: tickets, now: now}
}

// Closed reports whether confirmations are refused.
func (g *Gate) Closed() bool { return g.closed.Load() }

// Watch measures once and returns the age of the oldest unsettled event; not for concurrent use. An
// error names the dependency that did not answer.
func (g *Gate) Watch(ctx context.Context) (oldest time.Duration, err error) {
	unpublished, err := g.events.OldestEvent(ctx)
	if err == nil {
		g.unpublishedAge = unpublished
	}
	if terr := g.askTicket(ctx); err == nil {
		err = terr
	}
	oldest = max(g.unpublishedAge, g.unappliedAge)
	g.closed.Store(oldest > closeAbove || g.closed.Load() && oldest >= openBelow)
	return oldest, err
}

// askTicket updates the measurement from one replica of ticket.
func (g *Gate) askTicket(ctx context.Context) error {
	now := g.now()
	unapplied, ago, err := g.tickets.Unsettled(ctx)
	if measured := now.Add(-ago); err == nil && !measured.Before(g.measured) {
		g.unappliedAge, g.measured = unapplied, measured
	}
	return err
}

// WatchGate is the worker that opens and closes the gate.
func (s *Service) WatchGate(ctx context.Context) error {
	return loop.Every(ctx, watchEvery, s.WatchOnce)
}

// WatchOnce measures once whether payments are settled in time.
func (s *Service) WatchOnce(ctx context.Context) {
	was := s.gate.Closed()
	oldest, err := s.gate.Watch(ctx)
	closed := s.gate.Closed()
	switch {
	case ctx.Err() != nil:
		return
	case closed && !was:
		s.log.ErrorContext(ctx, "confirmations are refused: payments are not settled", "oldest_seconds", oldest.Seconds())
	case was && !closed:
		s.log.InfoContext(ctx, "confirmations are taken again", "oldest_seconds", oldest.Seconds())
	case err != nil:
		s.log.DebugContext(ctx, "age of the oldest unsettled payment not known", "error", err)
	}
	s.opts.Observe.settled(oldest, closed)
}

// admission is nil, or the error for which new payments are refused.
func (s *Service) admission() error {
	if s.gate.Closed() {
		return ErrSettlementDelayed.WithRetry(pausedRetry)
	}
	return nil
}
