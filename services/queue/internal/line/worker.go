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
	// maxParallelLines is the most lines handled at once. Failing lines have a separate limit.
	maxParallelLines = 16
	// maxParallelTicks is how many ticks may overlap, since one may wait for a line that hangs.
	maxParallelTicks = 4
	unlistAfter      = 10 * time.Minute // the registry drops a line that was empty for so long
	// cleanPause is the pause between two pages of a cleanup, so that visitors' calls can run.
	cleanPause        = 100 * time.Millisecond
	tickBudget        = 800 * time.Millisecond // how long one tick may continue to admit visitors
	settingsInterval  = time.Second            // how often settings that are due are read
	firstSalesTimeout = 3 * time.Second        // the time limit of the first read of all sale statuses
)

var errSalesNotLoaded = errors.New("the sale statuses have not been read yet")

// Worker runs the periodic work of lines, above all the ticks: calls of the store that admit
// waiting visitors. Each replica has one Worker. The schedule divides the ticks among the replicas.
// The store limits admissions per second however many ticks run. A Worker may be used concurrently.
type Worker struct {
	service       *Service
	tickInterval  time.Duration
	cleanInterval time.Duration
	salesLoaded   chan struct{} // closed after the first read of all sale statuses

	mu         sync.Mutex
	ticking    map[string]bool // lines whose tick is in progress
	failed     map[string]bool // lines whose last call failed
	lastPlanAt int64           // TickPlan.Now of the last plan
	reports    []TickReport    // results of ticks, not sent yet
}

// NewWorker makes a Worker with these intervals between ticks and between cleanups.
func NewWorker(s *Service, tickInterval, cleanInterval time.Duration) *Worker {
	return &Worker{
		service: s, tickInterval: tickInterval, cleanInterval: cleanInterval, salesLoaded: make(chan struct{}),
		ticking: make(map[string]bool), failed: make(map[string]bool),
	}
}

// RunTicks runs the ticks that are due, until ctx ends. Ticks may overlap. Lines whose calls fail
// are ticked in a separate loop, since many slow ones would delay the other lines.
func (w *Worker) RunTicks(ctx context.Context) error {
	var ticks, failing errgroup.Group
	ticks.SetLimit(maxParallelTicks)
	failing.Go(func() error {
		return loop.Tick(ctx, w.tickInterval, func(ctx context.Context) { inParallel(ctx, w.failingLines(), w.tickFailing) })
	})
	err := loop.Tick(ctx, w.tickInterval, func(ctx context.Context) {
		ticks.TryGo(func() error {
			w.tickAll(ctx)
			return nil
		})
	})
	return cmp.Or(ticks.Wait(), failing.Wait(), err)
}

func (w *Worker) RunCleanups(ctx context.Context) error {
	return loop.Tick(ctx, w.cleanInterval, w.CleanLines)
}

// RunSettingsReads reads the settings of lines periodically until ctx ends. It is not part of the
// ticks, so that no tick waits for the ticket service.
func (w *Worker) RunSettingsReads(ctx context.Context) error {
	return loop.Tick(ctx, settingsInterval, w.RefreshSettings)
}

// RunActSends sends pending acts to the ticket service, periodically until ctx ends.
func (w *Worker) RunActSends(ctx context.Context) error {
	return loop.Tick(ctx, actsInterval, w.SendPendingActs)
}

// RunEntitlementAsks asks periodically which waiting users have an entitlement, until ctx ends.
func (w *Worker) RunEntitlementAsks(ctx context.Context) error {
	return loop.Tick(ctx, askInterval, w.AskEntitlements)
}

// RunSaleReads reads sale statuses periodically until ctx ends. It must be called only once.
func (w *Worker) RunSaleReads(ctx context.Context) error {
	w.loadSales(ctx)
	return loop.Tick(ctx, salesInterval, w.service.RefreshSales)
}

// Ready fails until all sale statuses were read once, or that read has timed out. If a gateway got
// a snapshot of lines earlier, it would drop the sale statuses that it knows.
func (w *Worker) Ready(context.Context) error {
	select {
	case <-w.salesLoaded:
		return nil
	default:
		return errSalesNotLoaded
	}
}

// loadSales reads the state of every line in the registry, and then all their sale statuses.
func (w *Worker) loadSales(ctx context.Context) {
	defer close(w.salesLoaded)
	ctx, cancel := context.WithTimeout(ctx, firstSalesTimeout)
	defer cancel()
	_, known := w.eventsToTick(ctx, nil)
	inParallel(ctx, known, w.observeLine)
	w.service.RefreshSales(ctx)
}

func (w *Worker) observeLine(ctx context.Context, eventID string) {
	if ctx.Err() != nil {
		return
	}
	st, err := w.service.readState(ctx, eventID)
	if err == nil && !st.Exists() {
		w.service.cache.MarkListed(eventID)
	} // the tick of a failing line logs the error
}

func (w *Worker) Tick(ctx context.Context) {
	lines := w.failingLines()
	var failing sync.WaitGroup
	failing.Go(func() { inParallel(ctx, lines, w.tickFailing) })
	w.tickAll(ctx)
	failing.Wait()
}

// tickAll ticks the due lines, except failing ones. Meanwhile it reads the registry, so that a slow
// registry does not delay the ticks. Then it updates the registry.
func (w *Worker) tickAll(ctx context.Context) {
	due := append(w.claimTicks(ctx), w.service.cache.linesWithOldReport()...)
	slices.Sort(due)
	due = slices.Compact(due)
	var ticks sync.WaitGroup
	ticks.Go(func() {
		inParallel(ctx, due, w.tickHealthy)
		w.sendReports(ctx)
	})
	listed, known := w.eventsToTick(ctx, w.service.cache.ContactedLines())
	ticks.Wait()
	w.updateRegistry(ctx, listed, known)
	for _, id := range w.service.cache.ForgetUnused(listed) {
		w.service.meter.ForgetLine(id)
		w.recordResult(id, true)
	}
}

func (w *Worker) tickHealthy(ctx context.Context, eventID string) { w.tickOnce(ctx, eventID, false) }

func (w *Worker) tickFailing(ctx context.Context, eventID string) { w.tickOnce(ctx, eventID, true) }

// tickOnce ticks a line, unless a tick of the line is in progress, or the line is not in the state
// that the caller assumes: failing or healthy.
func (w *Worker) tickOnce(ctx context.Context, eventID string, failing bool) {
	if !w.tryStartTick(eventID, failing) {
		return
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.ticking, eventID)
	}()
	w.recordResult(eventID, w.admitRepeatedly(ctx, eventID))
}

func (w *Worker) tryStartTick(eventID string, failing bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ticking[eventID] || w.failed[eventID] != failing {
		return false
	}
	w.ticking[eventID] = true
	return true
}

// CleanLines cleans up every line in use, and for a last time the lines that are unused now.
func (w *Worker) CleanLines(ctx context.Context) {
	w.forEach(ctx, w.service.cache.takeLinesToClean(), func(ctx context.Context, eventID string) { w.recordResult(eventID, w.cleanLine(ctx, eventID)) })
}

func (w *Worker) RefreshSettings(ctx context.Context) {
	w.forEach(ctx, w.service.cache.linesWithSettingsDue(), w.service.readSettingsIfDue)
}

func (w *Worker) AskEntitlements(ctx context.Context) {
	w.forEach(ctx, w.service.entitlements.dueEvents(), w.service.askPending)
}

func (w *Worker) SendPendingActs(ctx context.Context) {
	w.forEach(ctx, w.service.cache.linesWithActs(), w.service.sendPendingActs)
}

// forEach calls do for each line, in parallel. Lines whose calls fail have a separate limit, since
// there may be many of them, and each call may last until its deadline.
func (w *Worker) forEach(ctx context.Context, eventIDs []string, do func(context.Context, string)) {
	healthy := exclude(eventIDs, w.failingLines())
	var failing sync.WaitGroup
	failing.Go(func() { inParallel(ctx, exclude(eventIDs, healthy), do) })
	inParallel(ctx, healthy, do)
	failing.Wait()
}

// inParallel calls do for each line, at most maxParallelLines at once, and waits for all calls.
func inParallel(ctx context.Context, eventIDs []string, do func(context.Context, string)) {
	var g errgroup.Group
	g.SetLimit(maxParallelLines)
	for _, id := range eventIDs {
		g.Go(func() error {
			do(ctx, id)
			return nil
		})
	}
	_ = g.Wait()
}

// exclude returns the event ids that are not among excludedIDs.
func exclude(eventIDs, excludedIDs []string) []string {
	excluded := make(map[string]bool, len(excludedIDs))
	for _, id := range excludedIDs {
		excluded[id] = true
	}
	return slices.DeleteFunc(slices.Clone(eventIDs), func(id string) bool { return excluded[id] })
}

func (w *Worker) failingLines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.failed))
}

func (w *Worker) recordResult(eventID string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		delete(w.failed, eventID)
	} else {
		w.failed[eventID] = true
	}
}

// eventsToTick returns the events in the registry (listed), and these together with the events that
// had contact at this replica (known). If the registry cannot be read, listed is empty.
func (w *Worker) eventsToTick(ctx context.Context, contacted []string) (listed map[string]bool, known []string) {
	registered, err := w.service.store.ListEvents(ctx)
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

// admitRepeatedly admits visitors to a line until nothing is left to do, for at most tickBudget. It
// reports whether the store answered.
func (w *Worker) admitRepeatedly(ctx context.Context, eventID string) bool {
	s := w.service
	for end := s.now().Add(tickBudget); ctx.Err() == nil; {
		st, result, err := s.store.Admit(ctx, eventID, s.cache.Snapshot(eventID))
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "tick failed", "event", eventID, "error", err)
				s.meter.RecordTickFailure(eventID)
			}
			return false
		}
		if !st.Exists() { // the line is gone; updateRegistry removes it later
			s.cache.MarkListed(eventID)
			s.meter.ForgetLine(eventID)
			w.recordTick(eventID, st, result)
			return true
		}
		s.cache.Observe(eventID, st)
		if st.BegunNow {
			s.log.WarnContext(ctx, "line lost data and recovers", "event", eventID, "epoch", st.Epoch, "waiting", st.Waiting, "old", st.PrevHolders)
		}
		s.meter.SetFigures(eventID, figuresOf(st, result))
		s.meter.AddAdmissions(eventID, result.Admitted)
		if !result.More || !s.now().Before(end) {
			w.recordTick(eventID, st, result)
			return true
		}
	}
	return true
}

// figuresOf returns the figures of a line to export. A line without visitors does not count as
// waiting for the ticket service, since that is asked about it rarely or not at all.
func figuresOf(st LineState, t AdmissionResult) Figures {
	return Figures{
		Waiting: st.Waiting, WaitingGeneral: st.WaitingGeneral(), Active: st.Active + st.PrevHolders, Kept: t.Kept, Threshold: st.Threshold, Epoch: st.Epoch,
		Selling: st.SaleStatus().AllowsAdmission(), Paused: st.Paused, Silent: t.Silent, Away: st.ShopAway() && st.Members() > 0, Pending: st.Pending,
	}
}

func (w *Worker) cleanLine(ctx context.Context, eventID string) bool {
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
			s.cache.recordCleanup(eventID)
			return true
		}
		loop.Sleep(ctx, cleanPause)
	}
	return true
}

// updateRegistry adds lines with contact to the registry, and removes lines empty for unlistAfter.
func (w *Worker) updateRegistry(ctx context.Context, listed map[string]bool, known []string) {
	s := w.service
	var add []string
	for _, id := range known {
		idle := s.cache.idleTime(id)
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
	if err := s.store.AddEvents(ctx, add...); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "events not registered", "count", len(add), "error", err)
	}
}

// unlist removes a line from the registry, but adds it again if a visitor has come meanwhile.
func (w *Worker) unlist(ctx context.Context, eventID string) {
	s := w.service
	err := s.store.RemoveEvent(ctx, eventID)
	var st LineState
	if err == nil {
		st, err = s.readState(ctx, eventID)
	}
	if err == nil && st.Members() > 0 {
		err = s.store.AddEvents(ctx, eventID)
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "registry not changed", "event", eventID, "error", err)
	}
}
