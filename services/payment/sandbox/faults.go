package sandbox

import (
	"errors"
	"time"

	"urr.guru/pkg/faults"
)

// keyLife is how long refund keys are kept if Faults.KeyLife is 0.
const keyLife = 24 * time.Hour

// Faults are what can go wrong with refunds. A share, from 0 to 1, is the probability of a fault.
// What goes wrong with a call depends only on the seed, the refund's key and the number of earlier
// calls with it, so that the same seed repeats a run. Charges depend on their payment key instead.
type Faults struct {
	Seed uint64 `json:"seed"`
	// WholeOnly refuses a refund of only a part of what is left of the charge.
	WholeOnly bool `json:"wholeOnly"`
	// KeyLife is how long a refund's key is kept; default 24h.
	KeyLife faults.Duration `json:"keyLife"`
	// Refused is the share of refunds that are refused for good, as if the charge were disputed.
	Refused float64 `json:"refused"`
	// Repeated is the share of the refunds, by the shop's Reference, that are refused under every key,
	// with a code that the shop does not know.
	Repeated float64 `json:"repeated"`
	// Silent, Lost and Late are the shares of the calls that get no answer: Silent makes no refund,
	// Lost makes it at once, Late makes it after LateFor.
	Silent  float64         `json:"silent"`
	Lost    float64         `json:"lost"`
	Late    float64         `json:"late"`
	LateFor faults.Duration `json:"lateFor"`
	// Pending is the share of the refunds that are only accepted at first, and done after SettleFor.
	// Failing is the share of all refunds that fail after SettleFor, even if they were done at once.
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

// validate checks that the shares are probabilities.
func (f *Faults) validate() error {
	sum, err := faults.Sum(f.shares())
	if err == nil && (sum > 1 || f.Failing < 0 || f.Failing > 1 || f.Repeated < 0 || f.Repeated > 1) {
		err = errors.New("the shares must add up to at most 1, and so must failing and repeated each")
	}
	return err
}

// pick returns the fault of the nth call (from 1) with a refund's key.
func (f *Faults) pick(key string, n int) fault {
	return faults.Pick(f.shares(), faults.Chance(f.Seed, key, n))
}

// fails reports whether a refund will fail after it was accepted.
func (f *Faults) fails(refundID string) bool { return faults.Chance(f.Seed, refundID, 0) < f.Failing }

// repeats reports whether every call for a refund is refused.
func (f *Faults) repeats(reference string) bool {
	return faults.Chance(f.Seed, reference, 0) < f.Repeated
}

// life returns how long refund keys are kept.
func (f *Faults) life() time.Duration {
	if f.KeyLife == 0 {
		return keyLife
	}
	return time.Duration(f.KeyLife)
}
