// Package crowd simulates the visitors of one sale, each acting as a browser does: they use the
// gateway, both waiting rooms, the seats and the payment. Some leave, come back, share links, forge
// passes or click twice.
package crowd

import (
	"slices"
	"sync"
	"time"
)

// Step is a kind of request that visitors make; the report has figures for each.
type Step string

// The steps, in the order of a visitor's journey.
const (
	StepLogin        Step = "login"
	StepMembership   Step = "membership"
	StepEvent        Step = "event"
	StepAssign       Step = "vwr_assign"
	StepChallenge    Step = "vwr_challenge"
	StepTier1Poll    Step = "vwr_check"
	StepQueueJoin    Step = "queue_check"
	StepQueuePoll    Step = "queue_status"
	StepHeartbeat    Step = "heartbeat"
	StepSeatMap      Step = "seat_map"
	StepAvailability Step = "availability"
	StepReserve      Step = "reserve"
	StepPrepare      Step = "prepare"
	StepConfirm      Step = "confirm"
	StepPage         Step = "provider_page"
	StepReturn       Step = "return"
	StepReservation  Step = "reservation"
	StepTickets      Step = "tickets"
	StepPayment      Step = "payment"
	StepRefund       Step = "refund"
	StepTicket       Step = "ticket"
	StepOffer        Step = "offer"
	StepAccept       Step = "accept"
	StepTransfers    Step = "transfers"
	StepEndOffer     Step = "end_offer"
	StepQR           Step = "qr"
	StepCheckIn      Step = "check_in"
	StepFigures      Step = "figures"
	StepLeave        Step = "leave"
	StepForged       Step = "forged"
	StepCheat        Step = "cheat"
	StepCancel       Step = "cancel"
	StepCampaign     Step = "campaign"
	StepAttend       Step = "attend"
	StepDraw         Step = "draw"
	StepRewards      Step = "rewards"
	StepPromotion    Step = "promotion"
	StepApply        Step = "apply"
	StepProgress     Step = "progress"
	StepDocument     Step = "draw_document"
)

// Steps lists all steps in the order of the journey.
func Steps() []Step {
	return []Step{
		StepLogin, StepMembership, StepEvent, StepAssign, StepChallenge, StepTier1Poll, StepQueueJoin, StepQueuePoll, StepHeartbeat, StepSeatMap, StepAvailability,
		StepReserve, StepPrepare, StepConfirm, StepPage, StepReturn, StepReservation, StepTickets, StepPayment, StepRefund, StepTicket,
		StepOffer, StepAccept, StepTransfers, StepEndOffer, StepQR, StepCheckIn, StepFigures, StepLeave, StepForged, StepCheat, StepCancel,
		StepCampaign, StepAttend, StepDraw, StepRewards,
		StepPromotion, StepApply, StepProgress, StepDocument,
	}
}

// Recorder records the latency of every request, and counts those that failed: without a response,
// or with a 5xx. A refusal (4xx) is no failure.
type Recorder struct {
	mu    sync.Mutex
	steps map[Step]*stepRecord
}

type stepRecord struct {
	latencies []time.Duration
	errors    int
	lastError string
}

// NewRecorder makes a Recorder without records.
func NewRecorder() *Recorder { return &Recorder{steps: map[Step]*stepRecord{}} }

// Add records one request; failure says why it failed, or is empty.
func (r *Recorder) Add(step Step, took time.Duration, failure string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.steps[step]
	if rec == nil {
		rec = &stepRecord{}
		r.steps[step] = rec
	}
	rec.latencies = append(rec.latencies, took)
	if failure != "" {
		rec.errors++
		rec.lastError = failure
	}
}

// Summary has the figures of one step; times are in milliseconds.
type Summary struct {
	Step   Step    `json:"step"`
	Count  int     `json:"count"`
	Errors int     `json:"errors"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	// LastError is the latest error.
	LastError string `json:"last_error,omitempty"`
}

// Summaries returns the figures of every step that was used, in the journey's order.
func (r *Recorder) Summaries() []Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Summary
	for _, step := range Steps() {
		rec := r.steps[step]
		if rec == nil {
			continue
		}
		sorted := slices.Clone(rec.latencies)
		slices.Sort(sorted)
		out = append(out, Summary{
			Step: step, Count: len(sorted), Errors: rec.errors, LastError: rec.lastError,
			P50: quantile(sorted, 0.50), P99: quantile(sorted, 0.99),
		})
	}
	return out
}

// Latencies returns one step's latencies in milliseconds, in the order of the responses.
func (r *Recorder) Latencies(step Step) []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.steps[step]
	if rec == nil {
		return nil
	}
	out := make([]float64, len(rec.latencies))
	for i, d := range rec.latencies {
		out[i] = milliseconds(d)
	}
	return out
}

// quantile returns a quantile of a sorted list by the nearest rank, in ms; 0 if the list is empty.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return milliseconds(sorted[int(q*float64(len(sorted)-1)+0.5)])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
