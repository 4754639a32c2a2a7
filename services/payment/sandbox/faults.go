package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
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
	KeyLife Duration `json:"keyLife"`
	// Refused is the share of the refunds that are refused for good, as of a disputed charge.
	Refused float64 `json:"refused"`
	// Silent drops the connection and refunds nothing, Lost refunds and drops it, Late drops it and
	// refunds after LateFor.
	Silent  float64  `json:"silent"`
	Lost    float64  `json:"lost"`
	Late    float64  `json:"late"`
	LateFor Duration `json:"lateFor"`
	// Pending is the share of the refunds that are only accepted. They are done after SettleFor,
	// except for the share Failing of all refunds, done ones too, which fail then.
	Pending   float64  `json:"pending"`
	Failing   float64  `json:"failing"`
	SettleFor Duration `json:"settleFor"`
}

// Duration is a duration of 0 or above, in JSON a text as "1.5s".
type Duration time.Duration

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *Duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q: must be a duration, as 1.5s", b)
	}
	*d = Duration(parsed)
	return nil
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

// share is the share of the calls that a fault affects.
type share struct {
	size  float64
	fault fault
}

func (f *Faults) shares() []share {
	return []share{{f.Refused, refused}, {f.Silent, silent}, {f.Lost, lost}, {f.Late, late}, {f.Pending, pending}}
}

// validate checks the shares.
func (f *Faults) validate() error {
	sum := 0.0
	for _, s := range f.shares() {
		if s.size < 0 {
			return errors.New("a share is below 0")
		}
		sum += s.size
	}
	if sum > 1 || f.Failing < 0 || f.Failing > 1 {
		return errors.New("the shares, and failing, must add up to at most 1")
	}
	return nil
}

// of returns the fault of the nth call (from 1) of a key.
func (f *Faults) of(key string, n int) fault {
	x := f.chance(key, n)
	for _, s := range f.shares() {
		if x -= s.size; x < 0 {
			return s.fault
		}
	}
	return none
}

// fails reports whether a refund that was accepted fails in the end.
func (f *Faults) fails(refundID string) bool { return f.chance(refundID, 0) < f.Failing }

// chance is a number in [0, 1) that the seed, a name and a count decide.
func (f *Faults) chance(name string, n int) float64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, uint64(n)) //nolint:gosec // a hash never fails; n is not negative
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(f.Seed, h.Sum64())).Float64() //nolint:gosec // faults need no secret numbers
}

// life returns how long refund keys are kept.
func (f *Faults) life() time.Duration {
	if f.KeyLife == 0 {
		return keyLife
	}
	return time.Duration(f.KeyLife)
}
