package line

import "math"

const (
	// warmUp is how long a line is watched before its measured rate counts, in milliseconds.
	warmUp = 5000
	// memoryOf is the time constant of the average in milliseconds: what was a minute ago weighs an eighth.
	memoryOf = 30_000
	// longestWait keeps the estimate of a line that hardly moves within a day, in seconds.
	longestWait = 86_400
)

// pace measures how many a line admits per second, as an exponentially weighted moving average over the times when somebody waits: slots
// that stay free because nobody comes, or because the sale lets nobody in, say nothing about how fast
// a queue would move.
type pace struct {
	since, last int64 // Redis's time in ms: when the waiting began, and the last observation
	admitted    int64
	rate        float64
}

// observe takes one state in. States come about once a second; those of other epochs or out of order start anew.
func (p *pace) observe(s State) {
	status := s.SaleStatus()
	switch {
	case s.Waiting == 0 || status == Scheduled:
		*p = pace{}
	case p.since > 0 && !status.Sells(): // the line goes on where it stopped
		p.since, p.last, p.admitted = p.since+s.Now-p.last, s.Now, s.Admitted
	case p.since == 0 || s.Admitted < p.admitted || s.Now < p.last:
		*p = pace{since: s.Now, last: s.Now, admitted: s.Admitted}
	case s.Now-p.last >= 500:
		dt := float64(s.Now - p.last)
		now := float64(s.Admitted-p.admitted) / dt * 1000
		old := math.Exp(-dt / memoryOf)
		if elapsed := float64(s.Now - p.since); elapsed < memoryOf {
			old = math.Min(old, (elapsed-dt)/elapsed) // a plain average until there is enough to forget
		}
		p.rate = old*p.rate + (1-old)*now
		p.last, p.admitted = s.Now, s.Admitted
	}
}

// wait estimates the seconds until position (from 1) is served, counted from the sale's opening. Until
// the line was watched for 5 s it is max(position/50, 5).
func (p *pace) wait(position int64, s State) int64 {
	first := max(position/50, 5)
	if s.SaleStatus() == Scheduled {
		return first + (s.Sale.OpensAt-s.Now+999)/1000
	}
	if p.since == 0 || p.last-p.since < warmUp {
		return first
	}
	rate := p.rate
	if s.SlotMS > 0 { // a full house turns over once per slot at the latest
		rate = max(rate, float64(min(s.Active, s.Threshold))*1000/float64(s.SlotMS))
	}
	if rate <= 0 {
		return first
	}
	return int64(math.Min(math.Ceil(float64(position)/rate), longestWait))
}

// perMinute is the measured rate.
func (p *pace) perMinute() float64 { return math.Round(p.rate*600) / 10 }
