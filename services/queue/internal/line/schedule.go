package line

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	busyFor          = contactWindow // how long a line counts as busy after a contact at any replica
	busyMarkInterval = busyFor / 3   // how often a line with contact is marked
	// idleTickInterval is about the time between two ticks of a line without visitors, at any replica.
	// These ticks detect that Redis lost data, and keep the exported figures current.
	idleTickInterval = time.Minute
	// scheduleTimeout limits a call to the schedule, which is stored on one node of a Redis Cluster.
	// The ticks of lines with visitors wait for this call.
	scheduleTimeout = 250 * time.Millisecond
	minBusyListAge  = 5 * time.Second // how long a list of busy lines is used at least
)

// Schedule divides the ticks (admission runs) of lines among the replicas. For each tick that is
// due, one replica claims the tick, runs it, and reports its result to the others. A line with
// visitors (busy) is due again as soon as the last claim has expired. Extra ticks do no harm.
type Schedule interface {
	ClaimTicks(ctx context.Context, r TickRequest) (TickPlan, error)
	ReportTicks(ctx context.Context, r TickResults) error
}

// TickRequest is a replica's request to the schedule for lines whose ticks it should run.
type TickRequest struct {
	// Busy are the lines to mark as busy for BusyFor. One that was idle is due at once.
	Busy    []string
	BusyFor time.Duration
	Lease   time.Duration // how long a claim lasts; 0: nothing is claimed
	Skip    []string      // lines that this replica cannot tick at present
	Since   int64         // return reports from this time on (TickPlan.Now of the last plan); 0 = none
}

// TickPlan is the answer to a TickRequest: the lines to tick, and the reports of other replicas.
type TickPlan struct {
	Now int64 // the schedule's time in epoch milliseconds
	// Due are the lines that this replica has claimed. Busy are all busy lines.
	Due, Busy []string
	Reports   []TickReport // the reports of all replicas since TickRequest.Since
}

// TickResults are the results of a replica's latest ticks, for the other replicas.
type TickResults struct {
	Reports []TickReport
	BusyFor time.Duration
}

// TickReport is the result of a tick.
type TickReport struct {
	EventID string
	State   LineState
	Tick    AdmissionResult
	AgeMS   int64         // the time since the state was read, in ms
	IdleFor time.Duration // when to tick the line again if it is not busy; 0: it has visitors

	at time.Time // the time of the tick, on this process's clock
}

// claimTicks asks the schedule which lines this replica must tick, and applies the reports of other
// replicas. If the schedule does not answer, it returns all lines in use that are known here.
func (w *Worker) claimTicks(ctx context.Context) (due []string) {
	s := w.service
	w.mu.Lock()
	since := w.lastPlanAt
	w.mu.Unlock()
	marks := s.cache.linesToMark()
	bounded, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	p, err := s.store.ClaimTicks(bounded, TickRequest{
		// The time between two plans varies around w.tickInterval. A claim that outlasts it would
		// suppress a tick and its admissions, so claims are short. An extra tick admits no more visitors.
		Busy: marks, BusyFor: busyFor, Lease: w.tickInterval / 2, Skip: w.linesToSkip(), Since: since,
	})
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "ticks not claimed", "error", err)
		}
		return s.cache.LinesInUse()
	}
	w.mu.Lock()
	w.lastPlanAt = p.Now
	w.mu.Unlock()
	s.cache.recordMarks(marks)
	s.cache.markBusy(p.Busy, max(minBusyListAge, 3*w.tickInterval))
	for _, r := range p.Reports {
		w.applyReport(r)
	}
	return p.Due
}

// linesToSkip returns the lines that other replicas should tick: calls on these lines fail at this
// replica, or a tick is in progress.
func (w *Worker) linesToSkip() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.failed)
	maps.Copy(all, w.ticking)
	return slices.Collect(maps.Keys(all))
}

// applyReport uses another replica's report as if this replica had run the tick, unless calls on
// the line fail here.
func (w *Worker) applyReport(r TickReport) {
	w.mu.Lock()
	failing := w.failed[r.EventID]
	w.mu.Unlock()
	s := w.service
	switch {
	case failing:
	case r.State.Exists():
		s.cache.observe(r.EventID, r.State, time.Duration(r.AgeMS)*time.Millisecond)
		s.meter.SetFigures(r.EventID, figuresOf(r.State, r.Tick))
	default:
		s.cache.MarkListed(r.EventID)
		s.meter.ForgetLine(r.EventID)
	}
}

// recordTick keeps the result of a tick for the next call of sendReports.
func (w *Worker) recordTick(eventID string, st LineState, t AdmissionResult) {
	r := TickReport{EventID: eventID, State: st, Tick: t, at: w.service.now()}
	if st.Members() == 0 {
		r.IdleFor = time.Duration((0.75 + rand.Float64()/2) * float64(idleTickInterval)) //nolint:gosec // spreads the ticks
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, r)
}

// sendReports sends the results of the latest ticks to the other replicas, by the schedule. After a
// failure they are dropped, since the next ticks have newer results.
func (w *Worker) sendReports(ctx context.Context) {
	w.mu.Lock()
	reports := w.reports
	w.reports = nil
	w.mu.Unlock()
	if len(reports) == 0 {
		return
	}
	s := w.service
	for i := range reports {
		reports[i].AgeMS = s.now().Sub(reports[i].at).Milliseconds()
	}
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	if err := s.store.ReportTicks(ctx, TickResults{Reports: reports, BusyFor: busyFor}); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "ticks not reported", "error", err)
	}
}

// markInUse marks a line as busy when its first visitor comes, so that it is ticked even if this
// replica dies now. It continues if the visitor's call is cancelled.
func (s *Service) markInUse(ctx context.Context, eventID string) {
	if !s.cache.startMark(eventID) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scheduleTimeout)
	defer cancel()
	if _, err := s.store.ClaimTicks(ctx, TickRequest{Busy: []string{eventID}, BusyFor: busyFor}); err != nil {
		s.log.DebugContext(ctx, "line not marked as busy", "event", eventID, "error", err) // the next plan marks the line
		return
	}
	s.cache.recordMarks([]string{eventID})
}
