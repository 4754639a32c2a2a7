// Package draw draws the winners of lotteries by pkg/fairdraw, in phases that are stored. Each
// phase follows from what is stored, and is written once, on the condition that the draw has not
// changed since it was read. So the result is the same when a process dies, and when two work at
// once.
//
//	OPEN    wait until all requests before the cutoff are processed, close the groups, wait again
//	CLOSED  list entries and exclusions, store the chunks of entries and the statement, then sign it
//	ROOT    wait for the beacon's round, fetch it; shortly before the announcement rank the entries and
//	        store the ranks and the winners
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

// ErrChanged means that another process has changed the draw since it was read.
var ErrChanged = errors.New("the draw has changed meanwhile")

// ErrUnreadable means that stored items of a draw are missing or cannot be decoded: the draw
// itself, its promotion, or some of its requests. The other requests have been handled.
var ErrUnreadable = errors.New("items of the draw cannot be read")

// Lottery is a promotion with the state of its draw.
type Lottery struct {
	Promotion promotion.Promotion
	Draw      promotion.Draw
	// Unreadable is why the promotion or the draw cannot be read; then only the event's id is set.
	Unreadable error
	// ListedAt is when the next step is due according to the list of open draws. Only OpenDraws sets
	// it.
	ListedAt int64
}

// Stores combines the stores that a Drawer uses.
type Stores struct {
	Draws
	Lotteries
	Requests
	Results
}

// Draws stores the open draws: those with results that are still to be written.
type Draws interface {
	// AcquireLease takes or renews this process's lease of a draw, for some seconds. It returns false
	// while another process has the lease.
	AcquireLease(ctx context.Context, name string) (bool, error)
	// OpenDraws reads the lotteries whose next step is due by a time, or with AllDraws every open one.
	OpenDraws(ctx context.Context, until int64) ([]Lottery, error)
	// Advance changes a draw, or fails with ErrChanged. It moves the draw in the list of open draws to
	// after.DueAt, or removes it from the list if all its results are written.
	Advance(ctx context.Context, before, after promotion.Draw) error
	// Forget removes a draw whose results are written, but which is still in the list of open draws.
	Forget(ctx context.Context, event string, listedAt int64) error
}

// AllDraws makes OpenDraws read every open draw, whenever its next step is due.
const AllDraws = 0

// Lotteries reads lotteries and stores operators' changes of them.
type Lotteries interface {
	// Lottery reads a lottery; found is false when there is no such promotion.
	Lottery(ctx context.Context, event string) (l Lottery, found bool, err error)
	// ChangeLottery changes a draw and its promotion, or fails with ErrChanged.
	ChangeLottery(ctx context.Context, before, after Lottery) error
}

// Requests stores the requests to lotteries.
type Requests interface {
	// Unsettled reports whether a request that was made before a time may still become an entry.
	Unsettled(ctx context.Context, event string, before int64) (bool, error)
	// CloseGroups makes all groups refuse further entries.
	CloseGroups(ctx context.Context, event string) error
	// EntryCounts returns the number in the stored entry counter of each group.
	EntryCounts(ctx context.Context, event string) (map[string]int64, error)
	// Entries reads a page of the sorted entries of a group, behind a sort key; next is empty at the
	// end.
	Entries(ctx context.Context, event, group, after string) (page fairdraw.Entries, next string, err error)
	// PutEntries stores chunk n of the entries with this root. A chunk has fairdraw.ChunkSize entries,
	// and becomes public with the root.
	PutEntries(ctx context.Context, event string, root fairdraw.Hash, n int, chunk fairdraw.Entries, endsAt int64) error
	// Exclusions reads all exclusions, sorted by request id.
	Exclusions(ctx context.Context, event string) ([]fairdraw.Exclusion, error)
}

// DecideEntry returns the change to make to an entry at the time now; nil: none.
type DecideEntry func(r *promotion.Request, now int64) *promotion.Change

// Results stores the winners, and how requests end.
type Results interface {
	// PutWinners stores the winners of a draw before it enters the phase DRAWN.
	PutWinners(ctx context.Context, d promotion.Draw, winners []uuid.UUID, endsAt int64) error
	Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error)
	// PutRanks stores the ranks of the entries in chunk n before the phase DRAWN.
	PutRanks(ctx context.Context, d promotion.Draw, n int, ranks promotion.Ranks, endsAt int64) error
	// SettleEntries writes the changes that decide returns for at most MaxSettled entries. If some
	// cannot be decoded, it writes the changes of all others and fails with ErrUnreadable.
	SettleEntries(ctx context.Context, entries []uuid.UUID, decide DecideEntry) error
}

// MaxSettled is the maximum number of entries in one transaction: each has two items in it, the
// request and its log.
const MaxSettled = 40

// Beacons are the sources of randomness.
type Beacons interface {
	// Get fetches and verifies a round. It fails with beacon.ErrNotPublished before its publication.
	Get(ctx context.Context, chain beacon.Chain, round uint64) (beacon.Round, error)
	// Check makes sure that a source publishes the chain at a time. It fails with beacon.ErrChain or
	// beacon.ErrUnchecked.
	Check(ctx context.Context, chain beacon.Chain, now time.Time) error
}

// Meter receives the figures of each pass over the open draws.
type Meter interface{ SetFigures(f Figures) }

// Figures are the measurements of the open draws.
type Figures struct {
	// Waiting is the longest time that a draw has waited for requests to be processed. Late is the
	// longest time that an announcement is overdue.
	Waiting, Late time.Duration
	// KeyMissing is the number of draws that need a key which this process does not have.
	KeyMissing int
	// Failing is the number of draws on which the last step of this process failed.
	Failing int
}

// Options are the times and clocks of a Drawer.
type Options struct {
	// After is the time from the cutoff to the begin of the draw. It must be longer than a request can
	// take from its time stamp to its receipt.
	After time.Duration
	Now   func() time.Time
	// Skew returns by how much this machine's clock is wrong; 0 if it is right enough. A process with
	// a wrong clock takes no step: it could close a lottery early, or sign a list too late.
	Skew func() time.Duration
}

const (
	passEvery  = time.Second      // the time between two passes over the due open draws
	listEvery  = 10 * time.Minute // the time between two reads of all open draws, for the metrics
	renewEvery = 5 * time.Second  // the time between two renewals of a draw's lease
	// maxDraws is the most draws before their announcement that are processed at a time, and the most
	// whose results are written at a time. Large draws need memory.
	maxDraws = 4
	// maxGroups is how many groups of a draw are processed in parallel.
	maxGroups = 8
	// unreadablePause is the time until the entries of a draw are read again, if some of its requests
	// could not be read. It doubles each time, up to maxUnreadablePause.
	unreadablePause    = time.Minute
	maxUnreadablePause = time.Hour
	// callTries is how many times a call is tried while the store does not answer.
	callTries = 5
)

// Drawer takes the steps of all open draws, through their phases. Any number of drawers may run.
type Drawer struct {
	store   Stores
	beacons Beacons
	keys    *fairdraw.Keyring
	meter   Meter
	opts    Options
	log     *slog.Logger
	terms   termsCache

	// Semaphores: drawPermits for draws before their announcement, settlePermits for writing results.
	drawPermits, settlePermits chan struct{}

	mu       sync.Mutex
	open     map[string]Lottery       // the open draws by event, as they were last read or written
	listAt   time.Time                // when all open draws are to be read again
	busy     map[string]bool          // draws that this process works on
	failing  map[string]bool          // draws whose last step failed
	resumeAt map[string]time.Time     // end of the pause of a draw with unreadable requests
	pause    map[string]time.Duration // the length of that pause
}

// errClock means that this machine's clock is wrong, so that it must not decide what is in time.
var errClock = errors.New("the clock of this process is off by more than 2 s")

// New returns a Drawer; Run starts it.
func New(store Stores, beacons Beacons, keys *fairdraw.Keyring, meter Meter, opts Options, log *slog.Logger) *Drawer {
	if opts.Skew == nil {
		opts.Skew = func() time.Duration { return 0 }
	}
	return &Drawer{
		store: store, beacons: beacons, keys: keys, meter: meter, opts: opts, log: log, terms: newTermsCache(),
		drawPermits: make(chan struct{}, maxDraws), settlePermits: make(chan struct{}, maxDraws),
		open: map[string]Lottery{}, busy: map[string]bool{}, failing: map[string]bool{}, resumeAt: map[string]time.Time{}, pause: map[string]time.Duration{},
	}
}

// Run draws until ctx ends. A draw with many entries takes long, but delays no other.
func (d *Drawer) Run(ctx context.Context) error {
	var work sync.WaitGroup
	_ = loop.Every(ctx, passEvery, func(ctx context.Context) { // returns nil
		due, err := d.readDue(ctx)
		if err != nil {
			if ctx.Err() == nil {
				d.log.WarnContext(ctx, "draws not read, trying again", "error", err)
			}
			return
		}
		d.reportFigures()
		d.startDraws(ctx, due, &work)
	})
	work.Wait()
	return nil
}

// Pass takes all steps of the open draws that can be taken now.
func (d *Drawer) Pass(ctx context.Context) error {
	due, err := d.readDue(ctx)
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	d.startDraws(ctx, due, &work)
	work.Wait()
	d.reportFigures()
	return nil
}

// startDraws starts the work on the open draws on which this process does not work yet.
func (d *Drawer) startDraws(ctx context.Context, open []Lottery, work *sync.WaitGroup) {
	for i := range open {
		l := &open[i]
		if d.tryStart(l.Promotion.EventID) {
			work.Go(func() {
				err := d.processDraw(ctx, l)
				failed := err != nil && !errors.Is(err, ErrChanged) && ctx.Err() == nil
				if failed {
					d.log.WarnContext(ctx, "draw not brought forward, trying again", "event_id", l.Promotion.EventID, "error", err)
				}
				d.finishDraw(l, failed, errors.Is(err, ErrUnreadable))
			})
		}
	}
}

func (d *Drawer) tryStart(event string) (free bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[event] || d.opts.Now().Before(d.resumeAt[event]) {
		return false
	}
	d.busy[event] = true
	return true
}

// finishDraw records the end of the work on a draw. If an item of the draw cannot be read, the next
// work begins after a pause. The pause grows if that work will read all entries again.
func (d *Drawer) finishDraw(l *Lottery, failed, unreadable bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	event, pause := l.Promotion.EventID, d.pause[l.Promotion.EventID]
	delete(d.busy, event)
	delete(d.pause, event)
	if delete(d.resumeAt, event); unreadable {
		if pause = min(max(unreadablePause, 2*pause), maxUnreadablePause); l.Unreadable != nil {
			pause = unreadablePause
		}
		d.pause[event], d.resumeAt[event] = pause, d.opts.Now().Add(pause)
	}
	if delete(d.failing, event); failed {
		d.failing[event] = true
	}
	if d.open[event] = *l; l.Draw.SettledAt != 0 {
		delete(d.open, event)
	}
}

// processDraw takes one step of a draw after another until the draw has to wait, and sets l to the
// new state. Writing results needs another permit than the other steps, so that it delays no draw
// that must be in time for its beacon round.
func (d *Drawer) processDraw(ctx context.Context, l *Lottery) error {
	if l.Unreadable != nil {
		return l.Unreadable
	}
	terms, err := d.terms.termsOf(&l.Promotion)
	if err != nil {
		return err
	}
	s := drawRun{Drawer: d, Lottery: *l, terms: terms}
	defer func() { *l = s.Lottery }()
	for advanced := true; advanced && !s.mustWait() && d.opts.Skew() == 0; {
		if advanced, err = d.takeSteps(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

// takeSteps takes the steps before the announcement, or those after it, with a permit and the
// draw's lease. The lease only avoids double work; writes are safe without it. advanced is false
// when the draw has to wait.
func (d *Drawer) takeSteps(ctx context.Context, s *drawRun) (advanced bool, err error) {
	permits, settling := d.drawPermits, s.writesResults()
	if settling {
		permits = d.settlePermits
	}
	select {
	case permits <- struct{}{}:
		defer func() { <-permits }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	ok, err := d.store.AcquireLease(ctx, leaseName(s.Promotion.EventID))
	if err != nil || !ok {
		return false, err
	}
	leaseCtx, stop := d.keepLease(ctx, leaseName(s.Promotion.EventID))
	defer stop()
	for advanced = true; advanced && s.writesResults() == settling; {
		if advanced, err = s.takeStep(leaseCtx); err != nil {
			if leaseCtx.Err() != nil && ctx.Err() == nil { // another process has the lease
				return false, ErrChanged
			}
			return false, err
		}
	}
	return advanced, nil
}

func leaseName(event string) string { return "draw-" + event }

// keepLease renews a lease until stop is called; the returned context ends when the lease is lost.
func (d *Drawer) keepLease(ctx context.Context, name string) (leaseCtx context.Context, stop func()) {
	leaseCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for loop.Sleep(leaseCtx, renewEvery) {
			if ok, err := d.store.AcquireLease(leaseCtx, name); err == nil && !ok {
				cancel()
			}
		}
	}()
	return leaseCtx, func() { cancel(); <-done }
}

// retry repeats a call of the store while the store does not answer, so that one failed call does
// not make a phase start over.
func retry(ctx context.Context, call func() error) error {
	_, err := retryRead(ctx, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// retryRead does what retry does, for a call that returns a value.
func retryRead[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := call()
		if err == nil || try == callTries || !errors.Is(err, errs.ErrUnavailable) || !loop.Sleep(ctx, time.Duration(try)*100*time.Millisecond) {
			return v, err
		}
	}
}
