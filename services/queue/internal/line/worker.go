package line

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/loop"
)

const (
	// linesAtOnce bounds the lines a worker handles at once, and apart from them those whose last
	// call failed.
	linesAtOnce = 16
	// roundsAtOnce bounds the ticks under way: one that waits for a line that hangs does not keep
	// the next from the others.
	roundsAtOnce = 4
	// unlistAfter is how long a line must be empty before the registry forgets it.
	unlistAfter = 10 * time.Minute
	// cleanGap is the pause between two pages of a cleanup, so that visitors get in between.
	cleanGap = 100 * time.Millisecond
	// tickBudget bounds the repetitions of one tick.
	tickBudget = 800 * time.Millisecond
	// settingsEvery is how often a worker queries whose settings are to be read.
	settingsEvery = time.Second
	// firstRound bounds the time in which a replica that starts asks about all lines.
	firstRound = 3 * time.Second
)

var errUnasked = errors.New("where sales stand was not asked for yet")

// Worker ticks every line there is: each replica runs one, and the store sees to it that together
// they admit no more than one would. It is safe for concurrent use.
type Worker struct {
	service *Service
	every   time.Duration
	clean   time.Duration
	asked   chan struct{} // closed after the first round of Ask

	mu     sync.Mutex
	busy   map[string]bool // lines that are being ticked
	failed map[string]bool // lines whose last call failed
}

// NewWorker makes one that ticks and cleans that often.
func NewWorker(s *Service, every, clean time.Duration) *Worker {
	return &Worker{
		service: s, every: every, clean: clean, asked: make(chan struct{}),
		busy: make(map[string]bool), failed: make(map[string]bool),
	}
}

// Admit ticks until ctx ends, whether the last tick is over or not. Lines that fail have a round of
// their own: they may be many, and slow, and would use up the rounds of the others.
func (w *Worker) Admit(ctx context.Context) error {
	var rounds, late errgroup.Group
	rounds.SetLimit(roundsAtOnce)
	late.Go(func() error {
		return loop.After(ctx, w.every, func(ctx context.Context) { sideBySide(ctx, w.failing(), w.tickLate) })
	})
	err := loop.After(ctx, w.every, func(ctx context.Context) {
		rounds.TryGo(func() error {
			w.tickAll(ctx)
			return nil
		})
	})
	return cmp.Or(rounds.Wait(), late.Wait(), err)
}

// Clean cleans up until ctx ends.
func (w *Worker) Clean(ctx context.Context) error { return loop.After(ctx, w.clean, w.Sweep) }

// Read reads settings until ctx ends. It has a round of its own: ticket may be slow, and no tick
// waits for it.
func (w *Worker) Read(ctx context.Context) error { return loop.After(ctx, settingsEvery, w.Refresh) }

// Ask asks where sales stand until ctx ends, in a round of its own too. It is called once.
func (w *Worker) Ask(ctx context.Context) error {
	w.askFirst(ctx)
	return loop.After(ctx, salesEvery, w.service.AskSales)
}

// Ready is nil once the first round of Ask is over: before it a gateway that watches this replica
// would be told of no sale, and forget those it knows. Ticket being away delays it by 3 s at most.
func (w *Worker) Ready(context.Context) error {
	select {
	case <-w.asked:
		return nil
	default:
		return errUnasked
	}
}

// askFirst meets every line that the registry names, and asks about all of them.
func (w *Worker) askFirst(ctx context.Context) {
	defer close(w.asked)
	ctx, cancel := context.WithTimeout(ctx, firstRound)
	defer cancel()
	_, known := w.events(ctx, nil)
	sideBySide(ctx, known, w.meet)
	w.service.AskSales(ctx)
}

func (w *Worker) meet(ctx context.Context, eventID string) {
	if ctx.Err() != nil {
		return
	}
	st, err := w.service.peek(ctx, eventID)
	if err == nil && !st.Exists() {
		w.service.cache.MarkListed(eventID)
	} // one that fails is met by a tick, which logs it
}

// Tick handles every line once, but those that another call is still at.
func (w *Worker) Tick(ctx context.Context) {
	failing := w.failing()
	var late sync.WaitGroup
	late.Go(func() { sideBySide(ctx, failing, w.tickLate) })
	w.tickAll(ctx)
	late.Wait()
}

// tickAll handles the lines that do not fail. Those that this replica had contact for do not wait
// for the registry, which is on one node of a cluster.
func (w *Worker) tickAll(ctx context.Context) {
	contacted := w.service.cache.Contacted()
	var own sync.WaitGroup
	own.Go(func() { sideBySide(ctx, contacted, w.tickSound) })
	listed, known := w.events(ctx, contacted)
	sideBySide(ctx, without(known, contacted), w.tickSound)
	own.Wait()
	w.list(ctx, listed, known)
	for _, id := range w.service.cache.Forget(listed) {
		w.service.meter.Forget(id)
		w.note(id, true)
	}
}

func (w *Worker) tickSound(ctx context.Context, eventID string) { w.tickOnce(ctx, eventID, false) }

func (w *Worker) tickLate(ctx context.Context, eventID string) { w.tickOnce(ctx, eventID, true) }

// tickOnce ticks a line unless it is being ticked, which then tells whether it is sound. One that
// another round has found to fail, or to be sound again, since this one began is left to its own.
func (w *Worker) tickOnce(ctx context.Context, eventID string, late bool) {
	if !w.begin(eventID, late) {
		return
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.busy, eventID)
	}()
	w.note(eventID, w.tick(ctx, eventID))
}

func (w *Worker) begin(eventID string, late bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[eventID] || w.failed[eventID] != late {
		return false
	}
	w.busy[eventID] = true
	return true
}

// Sweep cleans every line once.
func (w *Worker) Sweep(ctx context.Context) {
	_, known := w.events(ctx, w.service.cache.Contacted())
	w.each(ctx, known, func(ctx context.Context, eventID string) { w.note(eventID, w.sweep(ctx, eventID)) })
}

// Refresh reads the settings that are due, of every line that is being ticked.
func (w *Worker) Refresh(ctx context.Context) {
	w.each(ctx, w.service.cache.Current(), w.service.readSettings)
}

// each handles lines side by side. Those whose last tick or sweep failed are apart: they may be many,
// and each may take until its deadline.
func (w *Worker) each(ctx context.Context, eventIDs []string, do func(context.Context, string)) {
	sound := without(eventIDs, w.failing())
	var late sync.WaitGroup
	late.Go(func() { sideBySide(ctx, without(eventIDs, sound), do) })
	sideBySide(ctx, sound, do)
	late.Wait()
}

// sideBySide handles lines, several at a time, and waits for all.
func sideBySide(ctx context.Context, eventIDs []string, do func(context.Context, string)) {
	var g errgroup.Group
	g.SetLimit(linesAtOnce)
	for _, id := range eventIDs {
		g.Go(func() error {
			do(ctx, id)
			return nil
		})
	}
	_ = g.Wait()
}

// without are the lines that are not among the others.
func without(eventIDs, others []string) []string {
	return slices.DeleteFunc(slices.Clone(eventIDs), func(id string) bool { return slices.Contains(others, id) })
}

// failing are the lines whose last call failed.
func (w *Worker) failing() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.failed))
}

func (w *Worker) note(eventID string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		delete(w.failed, eventID)
	} else {
		w.failed[eventID] = true
	}
}

// events are those of the registry and those that this replica had contact for; without the registry its own suffice.
func (w *Worker) events(ctx context.Context, contacted []string) (listed map[string]bool, known []string) {
	registered, err := w.service.store.Events(ctx)
	if err != nil && ctx.Err() == nil {
		w.service.log.WarnContext(ctx, "registry not read", "error", err)
	}
	listed = make(map[string]bool, len(registered))
	for _, id := range registered {
		listed[id] = true
	}
	known = slices.Concat(registered, contacted)
	slices.Sort(known)
	return listed, slices.Compact(known)
}

// tick admits, at once again while there is more to do, within the second. It reports whether the
// store answered.
func (w *Worker) tick(ctx context.Context, eventID string) bool {
	s := w.service
	for end := s.now().Add(tickBudget); ctx.Err() == nil; {
		st, did, err := s.store.Admit(ctx, eventID, s.cache.Snapshot(eventID))
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "tick failed", "event", eventID, "error", err)
			}
			return false
		}
		if !st.Exists() { // the registry lists what is gone; it is taken off when nobody has come for a while
			s.cache.MarkListed(eventID)
			return true
		}
		s.cache.Observe(eventID, st)
		if st.Fresh {
			s.log.WarnContext(ctx, "line lost data and recovers", "event", eventID, "epoch", st.Epoch, "waiting", st.Waiting, "old", st.Old)
		}
		s.meter.Line(eventID, st.Waiting, st.Active+st.Old, st.SaleStatus().Sells())
		s.meter.Admitted(eventID, did.Admitted)
		s.meter.Kept(eventID, did.Kept)
		if !did.More || !s.now().Before(end) {
			return true
		}
	}
	return true
}

func (w *Worker) sweep(ctx context.Context, eventID string) bool {
	s := w.service
	for ctx.Err() == nil {
		st, _, more, err := s.store.Clean(ctx, eventID, s.cache.Snapshot(eventID))
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "cleanup failed", "event", eventID, "error", err)
			}
			return false
		}
		s.cache.Observe(eventID, st)
		if !more {
			return true
		}
		loop.Sleep(ctx, cleanGap)
	}
	return true
}

// list keeps the registry right: lines with contact are in it, lines that were empty for long are not.
func (w *Worker) list(ctx context.Context, listed map[string]bool, known []string) {
	s := w.service
	var add []string
	for _, id := range known {
		idle := s.cache.idle(id)
		switch {
		case !listed[id] && idle < unlistAfter:
			add = append(add, id)
		case listed[id] && idle >= unlistAfter:
			w.unlist(ctx, id)
		}
	}
	if len(add) == 0 {
		return
	}
	if err := s.store.Add(ctx, add...); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "events not registered", "count", len(add), "error", err)
	}
}

// unlist takes a line off the registry and queries again: who came in between must not be left unticked.
func (w *Worker) unlist(ctx context.Context, eventID string) {
	s := w.service
	err := s.store.Remove(ctx, eventID)
	var st State
	if err == nil {
		st, err = s.peek(ctx, eventID)
	}
	if err == nil && st.Waiting+st.Active+st.Old+st.Parked > 0 {
		err = s.store.Add(ctx, eventID)
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "registry not changed", "event", eventID, "error", err)
	}
}
