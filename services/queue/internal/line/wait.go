package line

import "math"

const (
	// minObservation is how long (ms) a line is observed before its measured rate is used.
	minObservation = 5000
	// averagingTime is the time constant of the moving average, in milliseconds: a sample a minute old
	// has an eighth of the weight of a new one.
	averagingTime = 30_000
	maxWait       = 86_400 // the longest estimate: a day, in seconds
)

// rateEstimator measures a line's admissions per second, as an exponentially weighted moving
// average. It counts only the time in which somebody waits and nothing stops admission: neither the
// sale's status, an outage of the ticket service nor an operator.
type rateEstimator struct {
	since, last int64 // Redis's time in ms of the start of the waiting and of the last observation
	admitted    int64
	rate        float64
	threshold   int64 // at the last observation
}

// observe updates the rate from a state of the line, about once a second. A state of another epoch,
// or an older one than the last, restarts the measurement.
func (p *rateEstimator) observe(s LineState) {
	status := s.SaleStatus()
	p.followThreshold(s)
	defer func() { p.threshold = s.Threshold }()
	switch {
	case s.Waiting == s.WaitingGeneral() || status == Scheduled:
		*p = rateEstimator{}
	case p.since > 0 && (s.Paused || s.ShopAway() || !status.AllowsAdmission()):
		// The time in which the line admits nobody does not count.
		p.since, p.last, p.admitted = p.since+s.Now-p.last, s.Now, s.Admitted
	case p.since == 0 || s.Admitted < p.admitted || s.Now < p.last:
		*p = rateEstimator{since: s.Now, last: s.Now, admitted: s.Admitted}
	case s.Now-p.last >= 500:
		dt := float64(s.Now - p.last)
		currentRate := float64(s.Admitted-p.admitted) / dt * 1000
		oldWeight := math.Exp(-dt / averagingTime)
		if elapsed := float64(s.Now - p.since); elapsed < averagingTime {
			oldWeight = math.Min(oldWeight, (elapsed-dt)/elapsed) // an unweighted average at first
		}
		p.rate = oldWeight*p.rate + (1-oldWeight)*currentRate
		p.last, p.admitted = s.Now, s.Admitted
	}
}

// followThreshold changes the rate with the threshold at once: while all slots are in use, slots
// become free in proportion to their number. After a threshold of 0 the measurement restarts.
func (p *rateEstimator) followThreshold(s LineState) {
	switch oldThreshold := p.threshold; {
	case s.Threshold == oldThreshold:
	case oldThreshold == 0:
		p.since = 0
	case s.Active+s.PrevHolders >= min(oldThreshold, s.Threshold):
		p.rate *= float64(s.Threshold) / float64(oldThreshold)
	}
}

// estimateWait estimates how many seconds remain until the visitor at a position (from 1) is
// admitted. This includes the time until the sale opens for the visitor, at opensAt (ms). It
// returns 0 if the wait is unknown: the line admits nobody, or no slot is free and the line was
// observed for less than 5 s. If a slot is free for the visitor, the wait is max(position/50, 5).
func (p *rateEstimator) estimateWait(position int64, s LineState, opensAt int64) int64 {
	status := s.SaleStatus()
	scheduled := (status == Scheduled || status == Presale) && s.Now < opensAt
	if s.Threshold == 0 || s.Paused || !scheduled && !s.Admitting() {
		return 0
	}
	var freeSlotWait int64
	if position <= s.Threshold-s.Active-s.PrevHolders {
		freeSlotWait = max(position/50, 5)
	}
	if scheduled && freeSlotWait > 0 {
		return freeSlotWait + (opensAt-s.Now+999)/1000
	}
	if scheduled || p.since == 0 || p.last-p.since < minObservation {
		return freeSlotWait
	}
	rate := p.rate
	if s.SlotMS > 0 { // each slot ends at the latest after this time
		rate = max(rate, float64(min(s.Active, s.Threshold))*1000/float64(s.SlotMS))
	}
	if rate <= 0 {
		return freeSlotWait
	}
	return int64(math.Min(math.Ceil(float64(position)/rate), maxWait))
}
