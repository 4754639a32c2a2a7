// Package faults decides which calls of a sandbox provider go wrong, so that a seed repeats a run.
package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// Share is the share of the calls that a fault of the type F affects, from 0 to 1.
type Share[F any] struct {
	Size  float64
	Fault F
}

// Sum returns the sum of shares. It fails when one is below 0.
func Sum[F any](shares []Share[F]) (sum float64, err error) {
	for _, s := range shares {
		if s.Size < 0 {
			return 0, errors.New("a share is below 0")
		}
		sum += s.Size
	}
	return sum, nil
}

// Pick returns the fault of a call by its chance, which Chance gives; the zero value is none.
func Pick[F any](shares []Share[F], chance float64) (fault F) {
	for _, s := range shares {
		if chance -= s.Size; chance < 0 {
			return s.Fault
		}
	}
	return fault
}

// Chance is a number in [0, 1) that a seed, a name and a count decide.
func Chance(seed uint64, name string, n int) float64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, [2]uint64{seed, uint64(n)}) //nolint:gosec // a hash never fails; n is not negative
	_, _ = h.Write([]byte(name))
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
