package sandbox

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// Faults are what goes wrong, as shares of the calls between 0 and 1. Whether a call is affected
// depends on the seed, its key and how often the key was sent before, so that a seed repeats a run.
type Faults struct {
	Seed uint64 `json:"seed"`
	// Refused: not paid, and may be paid later. RefusedForGood: never.
	Refused        float64 `json:"refused"`
	RefusedForGood float64 `json:"refusedForGood"`
	// Busy answers 429, Unavailable 503: nothing is paid.
	Busy        float64 `json:"busy"`
	Unavailable float64 `json:"unavailable"`
	// Silent drops the connection without paying, Lost after paying.
	Silent float64 `json:"silent"`
	Lost   float64 `json:"lost"`
	// Failed answers 500 after paying.
	Failed float64 `json:"failed"`
	// Slow pays and answers after SlowFor. Late drops the connection and pays after LateFor, so that
	// a lookup in between finds nothing.
	Slow    float64       `json:"slow"`
	SlowFor time.Duration `json:"slowFor"`
	Late    float64       `json:"late"`
	LateFor time.Duration `json:"lateFor"`
	// Down refuses every call with 503, lookups too.
	Down bool `json:"down"`
	// NoVoid is the share of the keys whose void is refused with 503, however often it is tried.
	NoVoid float64 `json:"noVoid"`
	// KeyRetention is how long a repeated key is recognised, LookupRetention how long lookups answer;
	// 0: for ever.
	KeyRetention    time.Duration `json:"keyRetention"`
	LookupRetention time.Duration `json:"lookupRetention"`
}

// fault names what happens to a call.
type fault int

const (
	none fault = iota
	refused
	refusedForGood
	busy
	unavailable
	silent
	lost
	failed
	slow
	late
)

// of returns what happens to the nth call (from 1) of a key.
func (f *Faults) of(key string, n int) fault {
	if f.Down {
		return unavailable
	}
	x := f.chance(key, n)
	for _, share := range []struct {
		of   float64
		what fault
	}{
		{f.Refused, refused}, {f.RefusedForGood, refusedForGood}, {f.Busy, busy}, {f.Unavailable, unavailable}, {f.Silent, silent},
		{f.Lost, lost}, {f.Failed, failed}, {f.Slow, slow}, {f.Late, late},
	} {
		if x -= share.of; x < 0 {
			return share.what
		}
	}
	return none
}

// refusesVoid reports whether voids of the key are refused.
func (f *Faults) refusesVoid(key string) bool { return f.chance(key, 0) < f.NoVoid }

// chance is a number in [0, 1) that the seed, a key and a count decide.
func (f *Faults) chance(key string, n int) float64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, [2]uint64{f.Seed, uint64(n)}) //nolint:gosec // a hash never fails; n is not negative
	_, _ = h.Write([]byte(key))
	return float64(scramble(h.Sum64())>>11) / (1 << 53)
}

// scramble spreads a hash over all 64 bits (the finalizer of MurmurHash3).
func scramble(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
