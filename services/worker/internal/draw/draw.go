// Package draw draws the winners of lotteries by pkg/fairdraw, in phases that are stored. A process
// that dies, or two that work at once, change nothing: each phase is written once, on the condition
// that the draw is as it was read, and follows from what is stored.
//
//	OPEN    wait until no request from before the cutoff is unsettled, close the groups, wait again
//	CLOSED  list entries and exclusions, store the statement, sign it as stored
//	ROOT    wait for the beacon's round, fetch it, rank the entries, store the winners
//	DRAWN   at the announcement store the seed; 10 s later write the results, those of the winners first
//	SETTLED
package draw

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
)

// ErrChanged means that the draw has changed since it was read. Another process works on it.
var ErrChanged = errors.New("the draw has changed meanwhile")

// ErrUnreadable means that requests of a draw cannot be read or are missing. The others have been handled.
var ErrUnreadable = errors.New("requests of the draw cannot be read")

// Lottery is a promotion with the state of its draw.
type Lottery struct {
	Promotion promotion.Promotion
	Draw      promotion.Draw
}

// Stores are what a Drawer reads and writes, by purpose; one type may be all of them.
type Stores struct {
	Draws
	Lotteries
	Requests
	Results
}

// Draws are the draws that are not settled. A change of one that is not as it was read is ErrChanged.
type Draws interface {
	// Acquire takes or renews the lease of a draw for some seconds.
	Acquire(ctx context.Context, name string) (bool, error)
	OpenDraws(ctx context.Context) ([]Lottery, error)
	// Advance changes a draw.
	Advance(ctx context.Context, before, after promotion.Draw) error
	// Forget takes a draw off the list of the open ones.
	Forget(ctx context.Context, event string) error
}

// Lotteries are what operators change.
type Lotteries interface {
	// Lottery reads one; found is false when there is no such promotion.
	Lottery(ctx context.Context, event string) (l Lottery, found bool, err error)
	// Cancel changes a draw and its promotion, or fails with ErrChanged.
	Cancel(ctx context.Context, before, after Lottery) error
}

// Requests are the requests to lotteries.
type Requests interface {
	// Unsettled reports whether a request from before a time waits to become an entry.
	Unsettled(ctx context.Context, event string, before int64) (bool, error)
	// CloseGroups ends the taking of entries by all groups.
	CloseGroups(ctx context.Context, event string) error
	// Counted are the numbers of entries by the counters of the groups.
	Counted(ctx context.Context, event string) (map[string]int64, error)
	// Entries reads a page of the sorted entries of a group, behind a sort key; next is empty at the end.
	Entries(ctx context.Context, event, group, after string) (page fairdraw.Entries, next string, err error)
	// Exclusions reads all exclusions, sorted by request id.
	Exclusions(ctx context.Context, event string) ([]fairdraw.Exclusion, error)
}

// DecideEntry returns the step of an entry at a time; nil: none.
type DecideEntry func(r *promotion.Request, now int64) *promotion.Change

// Results are the winners, and the ends of requests.
type Results interface {
	// PutWinners stores the winners of a draw that is about to be in phase DRAWN.
	PutWinners(ctx context.Context, d promotion.Draw, winners []uuid.UUID, endsAt int64) error
	Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error)
	// SettleEntries writes what decide makes of at most MaxSettled entries. After an error about some of
	// them, ErrUnreadable, the others have been written.
	SettleEntries(ctx context.Context, entries []uuid.UUID, decide DecideEntry) error
}

// MaxSettled bounds the entries of one transaction: each has two items in it, the request and its log.
const MaxSettled = 40

// Beacon fetches verified rounds. It fails with beacon.ErrNotPublished for one that is not published.
type Beacon interface {
	Round(ctx context.Context, chain beacon.Chain, round uint64) (beacon.Round, error)
}

// Meter gets the figures of each pass over the open draws.
type Meter interface{ Draws(f Figures) }

// Figures are those of the open draws.
type Figures struct {
	// Waiting is for how long the draw that waits longest has waited for unsettled requests.
	Waiting time.Duration
	// Late is for how long the announcement that is overdue longest has been so.
	Late time.Duration
	// KeyMissing is the number of draws with a key that this process does not have.
	KeyMissing int
	// Failing is the number of draws that this process could not bring forward.
	Failing int
}

// Options of a Drawer.
type Options struct {
	// After is the time from the cutoff to the draw's begin. It must be longer than a request can take
	// from its stamp to its receipt.
	After time.Duration
	Now   func() time.Time
}

const (
	// passEvery is the interval at which the open draws are looked at.
	passEvery = time.Second
	// renewEvery is the interval at which the lease of a draw is renewed.
	renewEvery = 5 * time.Second
	// drawsAtOnce bounds the draws that are worked on at a time, and those whose results are written:
	// large ones need memory.
	drawsAtOnce = 4
	// parallel bounds the groups of a draw that are handled at a time.
	parallel = 8
	// unreadableRest is the pause after a draw has met requests that cannot be read.
	unreadableRest = time.Minute
	// callTries bounds how often a call is tried while the store does not answer.
	callTries = 5
)

// Drawer brings draws forward. Any number may run.
type Drawer struct {
	store   Stores
	beacons Beacon
	keys    *fairdraw.Keyring
	meter   Meter
	opts    Options
	log     *slog.Logger
	terms   termsCache
	turns   chan struct{} // one for each draw that is worked on until its announcement

	settlingTurns chan struct{} // one for each draw whose results are written

	mu      sync.Mutex
	busy    map[string]bool      // draws that this process works on
	failing map[string]bool      // draws whose last work failed
	resumes map[string]time.Time // when the work on a draw goes on that has unreadable requests
}

// New makes a drawer; Run starts it.
func New(store Stores, beacons Beacon, keys *fairdraw.Keyring, meter Meter, opts Options, log *slog.Logger) *Drawer {
	return &Drawer{
		store: store, beacons: beacons, keys: keys, meter: meter, opts: opts, log: log, terms: newTermsCache(),
		turns: make(chan struct{}, drawsAtOnce), settlingTurns: make(chan struct{}, drawsAtOnce), busy: map[string]bool{}, failing: map[string]bool{}, resumes: map[string]time.Time{},
	}
}

// Run draws until ctx ends. A draw that takes long, since it has many entries, delays no other.
func (d *Drawer) Run(ctx context.Context) error {
	var work sync.WaitGroup
	_ = loop.Every(ctx, passEvery, func(ctx context.Context) { // returns nil
		open, err := d.store.OpenDraws(ctx)
		if err != nil {
			if ctx.Err() == nil {
				d.log.WarnContext(ctx, "draws not read, trying again", "error", err)
			}
			return
		}
		d.observe(open)
		d.begin(ctx, open, &work)
	})
	work.Wait()
	return nil
}

// Pass brings each open draw forward as far as it can go now.
func (d *Drawer) Pass(ctx context.Context) error {
	open, err := d.store.OpenDraws(ctx)
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	d.begin(ctx, open, &work)
	work.Wait()
	d.observe(open)
	return nil
}

// begin starts the work on the draws that are not worked on yet.
func (d *Drawer) begin(ctx context.Context, open []Lottery, work *sync.WaitGroup) {
	for i := range open {
		l := &open[i]
		if d.take(l.Promotion.EventID) {
			work.Go(func() {
				err := d.bring(ctx, l)
				failed := err != nil && !errors.Is(err, ErrChanged) && ctx.Err() == nil
				if failed {
					d.log.WarnContext(ctx, "draw not brought forward, trying again", "event_id", l.Promotion.EventID, "error", err)
				}
				d.leave(l.Promotion.EventID, failed, errors.Is(err, ErrUnreadable))
			})
		}
	}
}

func (d *Drawer) take(event string) (free bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[event] || d.opts.Now().Before(d.resumes[event]) {
		return false
	}
	d.busy[event] = true
	return true
}

// leave ends the work on a draw. While requests of it cannot be read, all its entries are read again only
// now and then.
func (d *Drawer) leave(event string, failed, unreadable bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, event)
	if delete(d.resumes, event); unreadable {
		d.resumes[event] = d.opts.Now().Add(unreadableRest)
	}
	if delete(d.failing, event); failed {
		d.failing[event] = true
	}
}

// bring takes one step after another until the draw has to wait, and leaves its state in l. It takes
// another turn for the results, so that they delay no draw that has its round to meet.
func (d *Drawer) bring(ctx context.Context, l *Lottery) error {
	terms, err := d.terms.of(&l.Promotion)
	if err != nil {
		return err
	}
	s := step{Drawer: d, Lottery: *l, terms: terms}
	defer func() { l.Draw = s.Draw }()
	for moved := true; moved && !s.waits(); {
		if moved, err = d.steps(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

// steps takes the steps that a turn is for. It holds the draw's lease, which saves work; what is written
// is safe without it. moved is false when the draw has to wait.
func (d *Drawer) steps(ctx context.Context, s *step) (moved bool, err error) {
	turns, settling := d.turns, s.settling()
	if settling {
		turns = d.settlingTurns
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	ok, err := d.store.Acquire(ctx, leaseName(s.Promotion.EventID))
	if err != nil || !ok {
		return false, err
	}
	held, stop := d.hold(ctx, leaseName(s.Promotion.EventID))
	defer stop()
	for moved = true; moved && s.settling() == settling; {
		if moved, err = s.next(held); err != nil {
			if held.Err() != nil && ctx.Err() == nil { // another process has the lease
				return false, ErrChanged
			}
			return false, err
		}
	}
	return moved, nil
}

func leaseName(event string) string { return "draw-" + event }

// hold renews a lease until stop is called; the returned context ends when the lease is lost.
func (d *Drawer) hold(ctx context.Context, name string) (held context.Context, stop func()) {
	held, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for loop.Sleep(held, renewEvery) {
			if ok, err := d.store.Acquire(held, name); err == nil && !ok {
				cancel()
			}
		}
	}()
	return held, func() { cancel(); <-done }
}

// observe reports the figures of a pass.
func (d *Drawer) observe(open []Lottery) {
	var f Figures
	f.Failing = d.failures(open)
	now := d.opts.Now()
	keys := d.keys.Keys()
	for _, l := range open {
		if l.Draw.Phase == promotion.DrawVoid {
			continue
		}
		if l.Draw.Phase == promotion.DrawOpen {
			f.Waiting = max(f.Waiting, now.Sub(time.UnixMilli(l.Promotion.LotteryCutoffAt).Add(d.opts.After)))
		}
		if !l.Draw.Announced() {
			f.Late = max(f.Late, now.Sub(time.UnixMilli(l.Promotion.AnnouncedAt)))
		}
		if terms, err := d.terms.of(&l.Promotion); err == nil && !hasKeys(keys, &l, &terms) {
			f.KeyMissing++
		}
	}
	d.meter.Draws(f)
}

// failures is the number of open draws whose last work failed here. Those that other processes have
// ended since are forgotten.
func (d *Drawer) failures(open []Lottery) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.failing
	d.failing = map[string]bool{}
	for _, l := range open {
		if before[l.Promotion.EventID] {
			d.failing[l.Promotion.EventID] = true
		}
	}
	return len(d.failing)
}

// hasKeys reports whether the keys that an open draw still needs are there.
func hasKeys(keys fairdraw.Keys, l *Lottery, t *terms) bool {
	_, seeds := keys.Seed(&t.Commitment, t.nonce)
	return signs(keys, l, t) && (seeds || l.Draw.Announced() || l.Draw.ZeroSeed)
}

// signs reports whether the statement of a draw is signed, or its key is there.
func signs(keys fairdraw.Keys, l *Lottery, t *terms) bool {
	_, ok := keys.Signing.KidOf(t.Public())
	return ok || l.Draw.Public()
}

// retry repeats a call of the store while the store does not answer, so that a phase need not begin
// anew because of one call.
func retry(ctx context.Context, call func() error) error {
	for try := 1; ; try++ {
		err := call()
		if err == nil || try == callTries || !errors.Is(err, errs.ErrUnavailable) || !loop.Sleep(ctx, time.Duration(try)*100*time.Millisecond) {
			return err
		}
	}
}
