// Package faults decides which calls of a sandbox provider (a stand-in for an external one) fail.
// The decisions follow from a seed, so that the same seed repeats a run.
package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// FaultShare says which share of the calls, from 0 to 1, gets one kind of fault.
type FaultShare[F any] struct {
	Size  float64
	Fault F
}

// Sum adds the sizes of shares. It fails when one is below 0.
func Sum[F any](shares []FaultShare[F]) (sum float64, err error) {
	for _, s := range shares {
		if s.Size < 0 {
			return 0, errors.New("a share is below 0")
		}
		sum += s.Size
	}
	return sum, nil
}

// Pick selects the fault of a call by chance, a number in [0, 1) that Chance computes. The zero
// value of F means no fault.
func Pick[F any](shares []FaultShare[F], chance float64) (fault F) {
	for _, s := range shares {
		if chance -= s.Size; chance < 0 {
			return s.Fault
		}
	}
	return fault
}

// Chance returns a number in [0, 1) that looks random, but follows from a seed, a name and a count.
func Chance(seed uint64, name string, n int) float64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, [2]uint64{seed, uint64(n)}) //nolint:gosec // a hash never fails; n is not negative
	_, _ = h.Write([]byte(name))
	return float64(mixBits(h.Sum64())>>11) / (1 << 53)
}

// mixBits spreads a hash over all 64 bits (the finalizer of MurmurHash3).
func mixBits(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Duration is a duration that is not negative. In JSON it is a text such as "1.5s".
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
