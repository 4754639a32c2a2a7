package sandbox

import (
	"errors"
	"time"

	"urr.guru/pkg/faults"
)

// keyLife is how long refund keys are kept if the faults do not say otherwise.
const keyLife = 24 * time.Hour

// Faults are what can go wrong with refunds. A share, from 0 to 1, is the probability of a fault.
// The seed, the refund's key and the number of earlier calls with it decide on a call, so that the
// same seed repeats a run. What happens to a charge depends on its payment key instead.
type Faults struct {
	Seed uint64 `json:"seed"`
	// WholeOnly refuses every refund of less than what is left of the charge.
	WholeOnly bool `json:"wholeOnly"`
	// KeyLife is how long a refund's key is kept; default 24h.
	KeyLife faults.Duration `json:"keyLife"`
	// Refused is the share of refunds that are refused for good, as if the charge were disputed.
	Refused float64 `json:"refused"`
	// Silent, Lost and Late are the shares of the calls that get no answer: Silent refunds nothing,
	// Lost refunds before the connection is dropped, Late refunds after LateFor.
	Silent  float64         `json:"silent"`
	Lost    float64         `json:"lost"`
	Late    float64         `json:"late"`
	LateFor faults.Duration `json:"lateFor"`
	// Pending is the share of the refunds that are only accepted at first, and done after
	// SettleFor. Failing is the share of all refunds that fail after SettleFor, even if they were
	// done at once.
	Pending   float64         `json:"pending"`
	Failing   float64         `json:"failing"`
	SettleFor faults.Duration `json:"settleFor"`
}

// fault is what goes wrong with one call for a refund.
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

// pick returns the fault of the nth call (from 1) with a refund's key.
func (f *Faults) pick(key string, n int) fault {
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
