package line

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	busyFor          = contactWindow // how long a line counts as busy after a contact, at any replica
	busyMarkInterval = busyFor / 3   // the time between two marks of a line with contact
	// idleTickInterval is about the time between two ticks of a line without visitors, by whichever
	// replica. These ticks find out that Redis lost data, and keep the exported figures current.
	idleTickInterval = time.Minute
	// scheduleTimeout bounds a call to the schedule, which is stored on one node of a Redis Cluster.
	// The ticks of lines with visitors wait for this call.
	scheduleTimeout = 250 * time.Millisecond
	minBusyListAge  = 5 * time.Second // the list of busy lines from the schedule counts for at least this long
)

// Schedule divides the ticks (admission runs) of lines among the replicas. One replica claims each tick
// that is due, and reports the result to the others. The next tick of a busy line, one with visitors,
// is due when the last claim has expired. The schedule is only a hint: extra ticks do no harm.
type Schedule interface {
	ClaimTicks(ctx context.Context, r TickRequest) (TickPlan, error)
	ReportTicks(ctx context.Context, r TickResults) error
}

// TickRequest is a replica's request to the schedule for lines whose ticks it should run.
type TickRequest struct {
	// Busy are lines to be marked as busy for BusyFor. An idle one among them is due immediately.
	Busy    []string
	BusyFor time.Duration
	Lease   time.Duration // how long a claim lasts; 0: nothing is claimed
	Skip    []string      // lines that this replica cannot tick now
	Since   int64         // TickPlan.Now of this replica's last plan, from which on it wants reports; 0 = none
}

// TickPlan is the schedule's answer to a TickRequest: which lines to tick, and what others reported.
type TickPlan struct {
	Now int64 // the schedule's time in epoch milliseconds
	// Due are the claimed lines, Busy all busy ones.
	Due, Busy []string
	Reports   []TickReport // those since TickRequest.Since, of all replicas
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
	IdleFor time.Duration // the time until the next tick unless the line is busy; 0: it has visitors

	at time.Time // this process's time of the tick
}

// claimTicks asks the schedule for the lines that this replica must tick, and applies the reports of
// other replicas. If the schedule does not answer, it returns all lines known here to be in use.
func (w *Worker) claimTicks(ctx context.Context) (due []string) {
	s := w.service
	w.mu.Lock()
	since := w.lastPlanAt
	w.mu.Unlock()
	marks := s.cache.linesToMark()
	bounded, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	p, err := s.store.ClaimTicks(bounded, TickRequest{
		// Plans are not exactly w.tickInterval apart. If a claim lasted beyond the next plan, a tick and
		// its admissions would be left out, so claims are short. An extra tick admits no more visitors.
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

// linesToSkip returns the lines whose ticks this replica should leave to others, since their calls fail
// here or their tick is in progress.
func (w *Worker) linesToSkip() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.failed)
	maps.Copy(all, w.ticking)
	return slices.Collect(maps.Keys(all))
}

// applyReport applies another replica's report as if this replica had run the tick, unless calls on the
// line fail here.
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

// recordTick keeps the result of a tick for the next report.
func (w *Worker) recordTick(eventID string, st LineState, t AdmissionResult) {
	r := TickReport{EventID: eventID, State: st, Tick: t, at: w.service.now()}
	if st.Members() == 0 {
		r.IdleFor = time.Duration((0.75 + rand.Float64()/2) * float64(idleTickInterval)) //nolint:gosec // spreads the ticks
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, r)
}

// sendReports sends the results of the latest ticks to the other replicas through the schedule. Results
// that could not be sent are dropped; the next ticks bring newer ones.
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
// replica dies now. The mark does not depend on the visitor's call, which may be cancelled.
func (s *Service) markInUse(ctx context.Context, eventID string) {
	if !s.cache.startMark(eventID) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scheduleTimeout)
	defer cancel()
	if _, err := s.store.ClaimTicks(ctx, TickRequest{Busy: []string{eventID}, BusyFor: busyFor}); err != nil {
		s.log.DebugContext(ctx, "line not marked as busy", "event", eventID, "error", err) // the next plan marks it
		return
	}
	s.cache.recordMarks([]string{eventID})
}
