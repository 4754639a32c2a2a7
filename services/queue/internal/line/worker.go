package line

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// linesAtOnce bounds the lines a worker handles at once.
	linesAtOnce = 16
	// unlistAfter is how long a line must be empty before the registry forgets it.
	unlistAfter = 10 * time.Minute
	// cleanGap is the pause between two pages of a cleanup, so that visitors get in between.
	cleanGap = 100 * time.Millisecond
	// tickBudget bounds the repetitions of one tick.
	tickBudget = 800 * time.Millisecond
)

// Worker ticks every line there is: each replica runs one, and the store sees to it that together they admit no more than one would.
type Worker struct {
	service *Service
	every   time.Duration
	clean   time.Duration
}

// NewWorker makes one that ticks and cleans that often.
func NewWorker(s *Service, every, clean time.Duration) *Worker {
	return &Worker{service: s, every: every, clean: clean}
}

// Admit ticks until ctx ends.
func (w *Worker) Admit(ctx context.Context) error { return repeat(ctx, w.every, w.Tick) }

// Clean cleans up until ctx ends.
func (w *Worker) Clean(ctx context.Context) error { return repeat(ctx, w.clean, w.Sweep) }

func repeat(ctx context.Context, every time.Duration, do func(context.Context)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			do(ctx)
		}
	}
}

// Tick handles every line once.
func (w *Worker) Tick(ctx context.Context) {
	listed, known := w.events(ctx)
	w.each(ctx, known, func(ctx context.Context, eventID string) {
		w.tick(ctx, eventID)
		w.service.readSettings(ctx, eventID)
	})
	w.list(ctx, listed, known)
	for _, id := range w.service.book.Forget(listed) {
		w.service.meter.Forget(id)
	}
}

// Sweep cleans every line once.
func (w *Worker) Sweep(ctx context.Context) {
	_, known := w.events(ctx)
	w.each(ctx, known, w.sweep)
}

func (w *Worker) each(ctx context.Context, eventIDs []string, do func(context.Context, string)) {
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

// events are those of the registry and those that this replica had contact for; without the registry its own suffice.
func (w *Worker) events(ctx context.Context) (listed map[string]bool, known []string) {
	registered, err := w.service.store.Events(ctx)
	if err != nil && ctx.Err() == nil {
		w.service.log.WarnContext(ctx, "registry not read", "error", err)
	}
	listed = make(map[string]bool, len(registered))
	for _, id := range registered {
		listed[id] = true
	}
	known = slices.Concat(registered, w.service.book.Contacted())
	slices.Sort(known)
	return listed, slices.Compact(known)
}

// tick admits, at once again while there is more to do, within the second.
func (w *Worker) tick(ctx context.Context, eventID string) {
	s := w.service
	for end := s.now().Add(tickBudget); ctx.Err() == nil; {
		st, did, err := s.store.Admit(ctx, eventID, s.book.Recall(eventID))
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "tick failed", "event", eventID, "error", err)
			}
			return
		}
		if !st.Exists() { // the registry lists what is gone
			return
		}
		s.book.Learn(eventID, st)
		if st.Fresh {
			s.log.WarnContext(ctx, "line lost data and recovers", "event", eventID, "epoch", st.Epoch, "waiting", st.Waiting, "old", st.Old)
		}
		s.meter.Line(eventID, st.Waiting, st.Active+st.Old)
		s.meter.Admitted(eventID, did.Admitted)
		if !did.More || !s.now().Before(end) {
			return
		}
	}
}

func (w *Worker) sweep(ctx context.Context, eventID string) {
	s := w.service
	for ctx.Err() == nil {
		st, _, more, err := s.store.Clean(ctx, eventID, s.book.Recall(eventID))
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "cleanup failed", "event", eventID, "error", err)
			}
			return
		}
		s.book.Learn(eventID, st)
		if !more {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(cleanGap):
		}
	}
}

// list keeps the registry right: lines with contact are in it, lines that were empty for long are not.
func (w *Worker) list(ctx context.Context, listed map[string]bool, known []string) {
	s := w.service
	var add []string
	for _, id := range known {
		idle := s.book.idle(id)
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

// unlist takes a line off the registry and looks again: who came in between must not be left unticked.
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
