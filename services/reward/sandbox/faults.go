package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// Faults are the faults that the sandbox injects, as shares of the calls between 0 and 1. Seed,
// key and number of earlier calls of the key decide on a call, so that a seed repeats a run.
type Faults struct {
	Seed uint64 `json:"seed"`
	// Refused: not paid, and may be paid later. RefusedForGood: never.
	Refused        float64 `json:"refused"`
	RefusedForGood float64 `json:"refusedForGood"`
	// Busy answers 429, Unavailable 503: nothing is paid.
	Busy        float64 `json:"busy"`
	Unavailable float64 `json:"unavailable"`
	// Silent never answers and does not pay, Lost never answers after paying. The connection is
	// dropped after SilenceFor, by default at once.
	Silent     float64       `json:"silent"`
	Lost       float64       `json:"lost"`
	SilenceFor time.Duration `json:"-"`
	// Failed answers 500 after paying.
	Failed float64 `json:"failed"`
	// Slow pays and answers after SlowFor. Late drops the connection and pays after LateFor, so that
	// a lookup in between finds nothing.
	Slow    float64       `json:"slow"`
	SlowFor time.Duration `json:"-"`
	Late    float64       `json:"late"`
	LateFor time.Duration `json:"-"`
	// Down refuses every call with 503, lookups too.
	Down bool `json:"down"`
	// NoVoid is the share of the keys whose void answers 501, however often it is tried, as at a
	// provider without voids. VoidLost is the share of the voids whose answer is lost: the key is void.
	NoVoid   float64 `json:"noVoid"`
	VoidLost float64 `json:"voidLost"`
	// KeyRetention is how long a repeated key is recognised, LookupRetention how long lookups answer;
	// 0: for ever.
	KeyRetention    time.Duration `json:"-"`
	LookupRetention time.Duration `json:"-"`
}

// faultsJSON is Faults in JSON: its durations are texts, as "1.5s".
type faultsJSON struct {
	*faultsFields
	SilenceFor      duration `json:"silenceFor"`
	SlowFor         duration `json:"slowFor"`
	LateFor         duration `json:"lateFor"`
	KeyRetention    duration `json:"keyRetention"`
	LookupRetention duration `json:"lookupRetention"`
}

type faultsFields Faults

func (f Faults) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultsJSON{
		faultsFields: (*faultsFields)(&f), SilenceFor: duration(f.SilenceFor), SlowFor: duration(f.SlowFor), LateFor: duration(f.LateFor),
		KeyRetention: duration(f.KeyRetention), LookupRetention: duration(f.LookupRetention),
	})
}

func (f *Faults) UnmarshalJSON(b []byte) error {
	var fields faultsFields
	parsed := faultsJSON{faultsFields: &fields}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parsed); err != nil {
		return err
	}
	fields.SilenceFor, fields.SlowFor, fields.LateFor = time.Duration(parsed.SilenceFor), time.Duration(parsed.SlowFor), time.Duration(parsed.LateFor)
	fields.KeyRetention, fields.LookupRetention = time.Duration(parsed.KeyRetention), time.Duration(parsed.LookupRetention)
	next := Faults(fields)
	sum := 0.0
	for _, share := range next.shares() {
		if share.size < 0 {
			return errors.New("a share is below 0")
		}
		sum += share.size
	}
	if sum > 1 {
		return fmt.Errorf("the shares add up to %g, above 1", sum)
	}
	if min(next.NoVoid, next.VoidLost) < 0 || max(next.NoVoid, next.VoidLost) > 1 {
		return errors.New("noVoid and voidLost must be shares between 0 and 1")
	}
	*f = next
	return nil
}

// duration is a duration of 0 or above.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q: must be a duration, as 1.5s", b)
	}
	*d = duration(parsed)
	return nil
}

// fault is the fault that is injected into a call.
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

// of returns the fault of the nth call (from 1) of a key.
func (f *Faults) of(key string, n int) fault {
	if f.Down {
		return unavailable
	}
	x := f.chance(key, n)
	for _, share := range f.shares() {
		if x -= share.size; x < 0 {
			return share.fault
		}
	}
	return none
}

// offersVoid reports whether the key can be voided.
func (f *Faults) offersVoid(key string) bool { return f.chance(key, 0) >= f.NoVoid }

// losesVoid reports whether the answer to the nth void (from 1) of the key is lost.
func (f *Faults) losesVoid(key string, n int) bool { return f.chance(voidOf(key), n) < f.VoidLost }

// voidOf is the name under which the voids of a key are counted.
func voidOf(key string) string { return key + "/void" }

// chance is a number in [0, 1) that the seed, a key and a count decide.
func (f *Faults) chance(key string, n int) float64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, [2]uint64{f.Seed, uint64(n)}) //nolint:gosec // a hash never fails; n is not negative
	_, _ = h.Write([]byte(key))
	return float64(scramble(h.Sum64())>>11) / (1 << 53)
}

// share is the share of the calls that a fault affects.
type share struct {
	size  float64
	fault fault
}

func (f *Faults) shares() []share {
	return []share{
		{f.Refused, refused}, {f.RefusedForGood, refusedForGood}, {f.Busy, busy}, {f.Unavailable, unavailable}, {f.Silent, silent},
		{f.Lost, lost}, {f.Failed, failed}, {f.Slow, slow}, {f.Late, late},
	}
}

// scramble spreads a hash over all 64 bits (the finalizer of MurmurHash3).
func scramble(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
