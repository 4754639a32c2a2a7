package sandbox

import (
	"errors"
	"time"

	"urr.guru/pkg/faults"
)

// keyLife is how long refund keys are kept if the faults do not say otherwise.
const keyLife = 24 * time.Hour

// Faults are what can go wrong with refunds. Shares are between 0 and 1; the seed, the key and the
// number of earlier calls with the key decide on a call, so that a seed repeats a run. The payment
// key selects what happens to a charge.
type Faults struct {
	Seed uint64 `json:"seed"`
	// WholeOnly refuses every refund of less than what is left of the charge.
	WholeOnly bool `json:"wholeOnly"`
	// KeyLife is how long a refund's key is kept; default 24h.
	KeyLife faults.Duration `json:"keyLife"`
	// Refused is the share of the refunds that are refused for good, as of a disputed charge.
	Refused float64 `json:"refused"`
	// Silent drops the connection and refunds nothing, Lost refunds and drops it, Late drops it and
	// refunds after LateFor.
	Silent  float64         `json:"silent"`
	Lost    float64         `json:"lost"`
	Late    float64         `json:"late"`
	LateFor faults.Duration `json:"lateFor"`
	// Pending is the share of the refunds that are only accepted. They are done after SettleFor,
	// except for the share Failing of all refunds, done ones too, which fail then.
	Pending   float64         `json:"pending"`
	Failing   float64         `json:"failing"`
	SettleFor faults.Duration `json:"settleFor"`
}

// fault is what happens to the call of a refund.
type fault int

const (
	none fault = iota
	refused
	silent
	lost
	late
	pending
)

func (f *Faults) shares() []faults.FaultShare[fault] {
	return []faults.FaultShare[fault]{
		{Size: f.Refused, Fault: refused}, {Size: f.Silent, Fault: silent}, {Size: f.Lost, Fault: lost}, {Size: f.Late, Fault: late},
		{Size: f.Pending, Fault: pending},
	}
}

// validate checks the shares.
func (f *Faults) validate() error {
	sum, err := faults.Sum(f.shares())
	if err == nil && (sum > 1 || f.Failing < 0 || f.Failing > 1) {
		err = errors.New("the shares, and failing, must add up to at most 1")
	}
	return err
}

// of returns the fault that happens to the nth call (from 1) with a refund's key.
func (f *Faults) of(key string, n int) fault {
	return faults.Pick(f.shares(), faults.Chance(f.Seed, key, n))
}

// fails reports whether a refund that was accepted fails in the end.
func (f *Faults) fails(refundID string) bool { return faults.Chance(f.Seed, refundID, 0) < f.Failing }

// life returns how long refund keys are kept.
func (f *Faults) life() time.Duration {
	if f.KeyLife == 0 {
		return keyLife
	}
	return time.Duration(f.KeyLife)
}
