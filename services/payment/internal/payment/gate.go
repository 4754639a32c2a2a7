package payment

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

const (
	// closeAbove and openBelow are the ages of the oldest event that is not settled at which
	// confirmations stop and start again. A reservation stays claimed for 10 min: whoever pays
	// before the limit is reached has most of it left for the event's way.
	closeAbove = 2 * time.Minute
	openBelow  = 30 * time.Second
	watchEvery = 2 * time.Second
	// forgetAfter is when ticket's last word is forgotten while none of its replicas tells any
	// more.
	forgetAfter = time.Minute
	// pausedRetry is when a payer may try again.
	pausedRetry = 10 * time.Second
)

// Unpublished is the store's word about events that wait.
type Unpublished interface {
	// OldestEvent is the age of the oldest event of payments that has not been published and is not
	// parked.
	OldestEvent(ctx context.Context) (time.Duration, error)
}

// ErrNotTold is what Tickets' Unsettled returns of a release of ticket that does not know the
// question.
var ErrNotTold = errors.New("ticket does not tell how far behind it is")

// Gate keeps people from paying into a line that cannot settle: an event of theirs would wait
// behind those that wait already, and their reservation would end before it is heard. What cannot
// be asked keeps its last word.
//
// Each question to ticket is answered by another of its replicas, so that words differ: one that is
// cut off from the brokers says what it knew, one of the previous release nothing. The word that
// was measured last counts, or the gate would open and close by turns.
type Gate struct {
	events  Unpublished
	tickets Tickets
	now     func() time.Time

	// Used by Watch only.
	here, there time.Duration
	measured    time.Time // when ticket measured there; zero: never

	closed atomic.Bool
}

// NewGate makes an open gate.
func NewGate(events Unpublished, tickets Tickets, now func() time.Time) *Gate {
	return &Gate{events: events, tickets: tickets, now: now}
}

// Closed reports whether confirmations are refused.
func (g *Gate) Closed() bool { return g.closed.Load() }

// Watch asks the store and ticket once, and returns how long the oldest event waits; not for
// concurrent use. An error names who did not answer.
func (g *Gate) Watch(ctx context.Context) (oldest time.Duration, err error) {
	here, err := g.events.OldestEvent(ctx)
	if err == nil {
		g.here = here
	}
	if terr := g.ask(ctx); err == nil {
		err = terr
	}
	oldest = max(g.here, g.there)
	g.closed.Store(oldest > closeAbove || g.closed.Load() && oldest >= openBelow)
	return oldest, err
}

// ask takes in the word of one of ticket's replicas.
func (g *Gate) ask(ctx context.Context) error {
	now := g.now()
	there, ago, err := g.tickets.Unsettled(ctx)
	measured := now.Add(-ago)
	switch {
	case err == nil && !measured.Before(g.measured):
		g.there, g.measured = there, measured
	case errors.Is(err, ErrNotTold):
		if now.Sub(g.measured) > forgetAfter { // all are of that release again
			g.there, g.measured = 0, time.Time{}
		}
		return nil
	}
	return err
}

// WatchGate is the worker that opens and closes the gate.
func (s *Service) WatchGate(ctx context.Context) error {
	return loop.Every(ctx, watchEvery, s.WatchOnce)
}

// WatchOnce looks once whether payments are settled in time.
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

// admission is nil, or why nobody may begin to pay.
func (s *Service) admission() error {
	if s.gate.Closed() {
		return ErrSettlementDelayed.WithRetry(pausedRetry)
	}
	return nil
}
