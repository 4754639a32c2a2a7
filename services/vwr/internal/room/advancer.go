package room

import (
	"cmp"
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

// ReadInterval is the time between a replica's reads of the counters. If the replica that moves a
// counter stops, another one begins to move it after about this time.
const ReadInterval = 400 * time.Millisecond

const (
	stepTimeout = 2 * time.Second // the time limit of one step, in case the store hangs
	// loadTimeout limits the call to the queue service, claimsTimeout the read of the claims. Both are
	// short, since a step takes as long as its slowest event.
	loadTimeout    = 300 * time.Millisecond
	claimsTimeout  = 300 * time.Millisecond
	claimsInterval = time.Second // the shortest time between two reads of an event's claims
	// LoadGrace is how long calls to tier 2 may fail before an event is served at the configured rate.
	// Until then nobody is served, since tier 2 may be full.
	LoadGrace        = 5 * time.Second
	sweepInterval    = time.Hour // the time between two calls of ForgetClosed
	maxParallelSteps = 32        // how many events are advanced at once
)

// CounterSource reads and advances the counters of rooms for an Advancer.
type CounterSource interface {
	ServingWriter
	// ReadActive reads consistently the counters of all active events, and of the known events, which
	// may have become inactive.
	ReadActive(ctx context.Context, known []string) ([]Counters, error)
}

// LoadSource tells how full tier 2 of an event is.
type LoadSource interface {
	ReadLoad(ctx context.Context, eventID string) (TierTwoLoad, error)
}

// ClaimCounter counts the claims of a round.
type ClaimCounter interface {
	// Claimed returns the number of stored claims. It fails if this replica cannot write claims, since
	// the number would be too small.
	Claimed(ctx context.Context, eventID string, round Round) (int64, error)
}

// Advancer moves the serving counters of all active events. Every replica runs one; there is no
// leader. Each reads the counters every ReadInterval and writes `serving = s + n` on condition that
// the counter is still s. The replica that succeeds goes on succeeding: the others see that the
// counter has moved, and start their measurement again.
type Advancer struct {
	cache        *StateCache
	source       CounterSource
	claimCounter ClaimCounter
	loads        LoadSource
	now          func() time.Time
	log          *slog.Logger

	trackers map[string]*tracker // used by Step only
	swept    time.Time           // used by Step only; zero before the first step
	stats    AdvancerStats

	mu   sync.Mutex
	full map[string]bool // events of which the last step served nobody because tier 2 is full
}

// AdvancerStats counts this replica's writes, and its steps without data about tier 2 or claims.
type AdvancerStats struct {
	Won, Lost, Failed atomic.Int64
	// Fallbacks counts steps at the configured rate of events with the inlet (rule of serving)
	// MaxInFlight, because calls to tier 2 had failed for LoadGrace.
	Fallbacks atomic.Int64
	// ClaimsMissed counts failed reads of claims, after which the event's claim share is unchanged.
	ClaimsMissed atomic.Int64
}

// tracker has this replica's measurements of one event.
type tracker struct {
	limiter  RateLimiter
	share    ClaimShare
	inFlight InFlightLimiter
	meter    RateMeter
	// unansweredSince is the time of the first failed call to tier 2 since the last successful one;
	// zero if the last call succeeded.
	unansweredSince time.Time
	full            bool // the last step served nobody because tier 2 is full
}

// NewAdvancer returns an Advancer. now must be monotonic (time.Now is).
func NewAdvancer(sc *StateCache, s CounterSource, cc ClaimCounter, l LoadSource, now func() time.Time, log *slog.Logger) *Advancer {
	return &Advancer{cache: sc, source: s, claimCounter: cc, loads: l, now: now, log: log, trackers: make(map[string]*tracker)}
}

func (a *Advancer) Stats() *AdvancerStats { return &a.stats }

// TierTwoFull reports whether the last step served nobody of the event because tier 2 was full.
// While the counters cannot be read, it is false.
func (a *Advancer) TierTwoFull(eventID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.full[eventID]
}

func (a *Advancer) recordFullEvents(trackers map[string]*tracker) {
	full := make(map[string]bool, len(trackers))
	for eventID, tr := range trackers {
		full[eventID] = tr.full
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = full
}

// Run calls Step periodically until ctx ends. It logs an outage of the store once at the beginning
// and once at the end.
func (a *Advancer) Run(ctx context.Context) error {
	failing := false
	return loop.Every(ctx, ReadInterval, func(ctx context.Context) {
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

// Step reads the counters once, and advances the counter of every active event as far as allowed.
func (a *Advancer) Step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	known := a.cache.ActiveIDs()
	counters, err := a.source.ReadActive(ctx, known)
	if err != nil {
		a.recordFullEvents(nil)
		return err
	}
	now := a.now()
	a.closeDeleted(known, counters)
	for _, c := range counters {
		a.cache.Merge(c)
	}
	a.cache.MarkLoaded()
	trackers := make(map[string]*tracker, len(counters))
	var work sync.WaitGroup
	slots := make(chan struct{}, maxParallelSteps)
	for _, c := range counters {
		if !c.Active {
			continue
		}
		tr := cmp.Or(a.trackers[c.EventID], new(tracker))
		trackers[c.EventID] = tr
		if !c.Serves(now) {
			continue // time earns nothing
		}
		tr.limiter.Observe(c, now)
		tr.meter.Observe(c, now)
		a.cache.SetRate(c.EventID, c.Round, math.Round(tr.meter.Rate()*100)/100)
		a.cache.SetStalled(c.EventID, c.Round, tr.meter.Stalled())
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			a.advanceCounter(ctx, tr, c)
		})
	}
	work.Wait()
	a.trackers = trackers
	a.recordFullEvents(trackers)
	a.sweepCacheIfDue(now)
	return nil
}

// sweepCacheIfDue calls ForgetClosed every sweepInterval, for the first time one interval after the
// first step.
func (a *Advancer) sweepCacheIfDue(now time.Time) {
	switch {
	case a.swept.IsZero():
		a.swept = now
	case now.Sub(a.swept) >= sweepInterval:
		a.cache.ForgetClosed()
		a.swept = now
	}
}

// closeDeleted closes those known events in the cache that the store no longer has.
func (a *Advancer) closeDeleted(known []string, counters []Counters) {
	for _, id := range known {
		if !slices.ContainsFunc(counters, func(c Counters) bool { return c.EventID == id }) {
			a.cache.MarkDeleted(id)
		}
	}
}

func (a *Advancer) advanceCounter(ctx context.Context, tr *tracker, c Counters) {
	a.updateClaimShare(ctx, tr, c)
	rate := c.Settings.Rate() / tr.share.Share()
	n, start := a.allowance(ctx, tr, c, rate)
	if n <= 0 {
		return
	}
	switch err := a.source.SetServing(ctx, c, c.Serving+n); {
	case err == nil:
		tr.limiter.RecordAdvance(n, rate, start)
		c.Serving += n
		a.cache.Merge(c)
		a.stats.Won.Add(1)
	case errors.Is(err, ErrStale):
		a.stats.Lost.Add(1)
	default: // the next read shows whether the write took effect
		a.stats.Failed.Add(1)
	}
}

// updateClaimShare reads the claims and updates the share. If the read fails, it leaves the share
// unchanged: visitors whose claims cannot be written seem to have left, and would raise the rate.
func (a *Advancer) updateClaimShare(ctx context.Context, tr *tracker, c Counters) {
	if !tr.share.ReadDue(c, a.now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
	defer cancel()
	claimed, err := a.claimCounter.Claimed(ctx, c.EventID, c.Round)
	if err != nil {
		a.stats.ClaimsMissed.Add(1)
		return
	}
	tr.share.Observe(c, claimed, a.now())
	c.Claimed = max(c.Claimed, claimed)
	a.cache.Merge(c)
}

// allowance returns by how many positions the counter of an event may advance, and the time at
// which this number is valid.
func (a *Advancer) allowance(ctx context.Context, tr *tracker, c Counters, rate float64) (n int64, start time.Time) {
	tr.full = false
	if c.Settings.Inlet != MaxInFlight {
		start = a.now()
		return tr.limiter.Allowance(c, rate, start), start
	}
	load, err := a.readLoad(ctx, c)
	start = a.now()
	if err == nil {
		tr.unansweredSince = time.Time{}
		tr.inFlight.Observe(c, load, start)
		tr.full = tr.inFlight.Headroom(c, load) <= 0
		return tr.inFlight.Allowance(c, load), start
	}
	if tr.unansweredSince.IsZero() {
		tr.unansweredSince = start
	}
	if start.Sub(tr.unansweredSince) < LoadGrace {
		return 0, start
	}
	a.stats.Fallbacks.Add(1)
	tr.limiter.IgnoreTimeBefore(tr.unansweredSince.Add(LoadGrace))
	return tr.limiter.Allowance(c, rate, start), start
}

func (a *Advancer) readLoad(ctx context.Context, c Counters) (TierTwoLoad, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return a.loads.ReadLoad(ctx, c.EventID)
}
