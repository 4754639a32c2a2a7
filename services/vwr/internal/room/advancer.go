package room

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

// ReadEvery is how often a replica reads the counters, and so what a takeover costs.
const ReadEvery = 400 * time.Millisecond

const (
	// stepTimeout bounds one step, so that a store that hangs does not silence the replica for longer than it takes to notice.
	stepTimeout = 2 * time.Second
	// loadTimeout bounds the question to tier 2, claimsTimeout the read of the claims. All events
	// wait for the slowest of a step.
	loadTimeout   = 300 * time.Millisecond
	claimsTimeout = 300 * time.Millisecond
	// claimsEvery is the least time between two successful reads of an event's claims.
	claimsEvery = time.Second
	// LoadGrace is how long tier 2 may leave questions unanswered before an event goes by the
	// configured rate. Until then nobody is served: tier 2 may be full.
	LoadGrace = 5 * time.Second
	// stepsAtOnce bounds the events that are advanced in parallel.
	stepsAtOnce = 32
)

// Source is the store as the advancing replicas see it.
type Source interface {
	Server
	// Active is a consistent read of the events in the registry and of those named (which may have left it).
	Active(ctx context.Context, also []string) ([]Counters, error)
}

// Loads asks how full tier 2 is.
type Loads interface {
	Load(ctx context.Context, eventID string) (Load, error)
}

// Tally counts the claims of a round.
type Tally interface {
	// Claimed is the number of claims that are written. It fails when claims cannot be written, by
	// this replica at least: the number would be too small.
	Claimed(ctx context.Context, eventID string, round Round) (int64, error)
}

// Advancer moves the serving counters of all active events. Every replica runs one; there is no leader. Each reads the counters every
// ReadEvery, and writes `serving = s + n` on condition that it still is s: who wins goes on winning, since the others see the counter
// move and start their measurement anew.
type Advancer struct {
	board  *Board
	source Source
	tally  Tally
	loads  Loads
	now    func() time.Time
	log    *slog.Logger

	lanes map[string]*lane // only touched by Step
	stats AdvancerStats
}

// AdvancerStats counts the writes of this replica.
type AdvancerStats struct {
	Won, Lost, Failed atomic.Int64
	// Fallbacks counts steps of an event with the inlet MaxInFlight that went by the rate, because
	// tier 2 had not answered for LoadGrace.
	Fallbacks atomic.Int64
	// ClaimsMissed counts the reads of claims that failed: the share of the event stays as it is.
	ClaimsMissed atomic.Int64
}

// lane is what a replica has measured of one event.
type lane struct {
	pace   Pace
	share  Share
	flight Flight
	meter  Meter
	// missed is when tier 2 left the first question unanswered since its last answer; zero when it
	// has answered the last one.
	missed time.Time
}

// NewAdvancer wires a replica's advancer. now must be monotonic (time.Now is).
func NewAdvancer(b *Board, s Source, t Tally, l Loads, now func() time.Time, log *slog.Logger) *Advancer {
	return &Advancer{board: b, source: s, tally: t, loads: l, now: now, log: log, lanes: make(map[string]*lane)}
}

// Stats are the counts since the start.
func (a *Advancer) Stats() *AdvancerStats { return &a.stats }

// Run steps until ctx ends. A store that fails is logged once when it begins and once when it is over.
func (a *Advancer) Run(ctx context.Context) error {
	failing := false
	return loop.Every(ctx, ReadEvery, func(ctx context.Context) {
		switch err := a.Step(ctx); {
		case ctx.Err() != nil:
		case err != nil && !failing:
			failing = true
			a.log.ErrorContext(ctx, "counters cannot be read, the last state is served", "error", err)
		case err == nil && failing:
			failing = false
			a.log.InfoContext(ctx, "counters can be read again")
		}
	})
}

// Step reads the counters once, and advances every active event by what it is due.
func (a *Advancer) Step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	known := a.board.Active()
	counters, err := a.source.Active(ctx, known)
	if err != nil {
		return err
	}
	now := a.now()
	a.forget(known, counters)
	lanes := make(map[string]*lane, len(counters))
	var work sync.WaitGroup
	free := make(chan struct{}, stepsAtOnce)
	for _, c := range counters {
		a.board.Apply(c)
		if !c.Active {
			continue
		}
		l := a.lanes[c.EventID]
		if l == nil {
			l = new(lane)
		}
		lanes[c.EventID] = l
		l.observe(c, now)
		a.board.Measured(c.EventID, c.Round, math.Round(l.meter.Rate()*100)/100)
		free <- struct{}{}
		work.Go(func() {
			defer func() { <-free }()
			a.advance(ctx, l, c)
		})
	}
	work.Wait()
	a.lanes = lanes
	a.board.Loaded()
	return nil
}

// forget closes the events that were known and are not in the store any more.
func (a *Advancer) forget(known []string, counters []Counters) {
	for _, id := range known {
		if !slices.ContainsFunc(counters, func(c Counters) bool { return c.EventID == id }) {
			a.board.Gone(id)
		}
	}
}

func (l *lane) observe(c Counters, now time.Time) {
	l.pace.Observe(c, now)
	l.meter.Observe(c, now)
}

func (a *Advancer) advance(ctx context.Context, l *lane, c Counters) {
	a.countClaims(ctx, l, c)
	rate := c.Settings.Rate() / l.share.Value()
	n, start := a.allowance(ctx, l, c, rate)
	if n <= 0 {
		return
	}
	switch err := a.source.Serve(ctx, c, c.Serving+n); {
	case err == nil:
		l.pace.Advanced(n, rate, start)
		c.Serving += n
		a.board.Apply(c)
		a.stats.Won.Add(1)
	case errors.Is(err, ErrStale):
		a.stats.Lost.Add(1)
	default: // whether it took effect is seen by the next read
		a.stats.Failed.Add(1)
	}
}

// countClaims brings the share up to date. Without the claims the last share stays: claims that
// cannot be written look like visitors who have left, and would raise the rate.
func (a *Advancer) countClaims(ctx context.Context, l *lane, c Counters) {
	if !l.share.Due(c, a.now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
	defer cancel()
	claimed, err := a.tally.Claimed(ctx, c.EventID, c.Round)
	if err != nil {
		a.stats.ClaimsMissed.Add(1)
		return
	}
	l.share.Observe(c, claimed, a.now())
	c.Claimed = max(c.Claimed, claimed)
	a.board.Apply(c)
}

// allowance is the number of positions by which the counter of an event may advance at start.
func (a *Advancer) allowance(ctx context.Context, l *lane, c Counters, rate float64) (n int64, start time.Time) {
	if c.Settings.Inlet != MaxInFlight {
		start = a.now()
		return l.pace.Allowance(c, rate, start), start
	}
	load, err := a.load(ctx, c)
	start = a.now()
	if err == nil {
		l.missed = time.Time{}
		l.flight.Observe(c, load, start)
		return l.flight.Allowance(c, load), start
	}
	if l.missed.IsZero() {
		l.missed = start
	}
	if start.Sub(l.missed) < LoadGrace {
		return 0, start
	}
	a.stats.Fallbacks.Add(1)
	l.pace.NotBefore(l.missed.Add(LoadGrace))
	return l.pace.Allowance(c, rate, start), start
}

func (a *Advancer) load(ctx context.Context, c Counters) (Load, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return a.loads.Load(ctx, c.EventID)
}
