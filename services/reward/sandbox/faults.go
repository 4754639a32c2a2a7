package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/faults"
)

// Faults says which faults the sandbox injects. Each number is the share of calls, between 0 and 1,
// that get the fault. The fault of a call depends only on Seed, the key and the number of earlier
// calls with the key, so that a run can be repeated.
type Faults struct {
	Seed uint64 `json:"seed"`
	// Refused answers 422 (a later call may pay), RefusedForGood 410 (none will). Both pay nothing.
	Refused        float64 `json:"refused"`
	RefusedForGood float64 `json:"refusedForGood"`
	// Busy answers 429, Unavailable answers 503. Both pay nothing.
	Busy        float64 `json:"busy"`
	Unavailable float64 `json:"unavailable"`
	// Silent does not pay and does not answer. Lost pays, but does not answer. Both drop the
	// connection after SilenceFor, by default at once.
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
	// NoVoid is the share of keys that cannot be voided: each attempt answers 501, as at a provider
	// without voids. VoidLost is the share of calls that void a key, but whose answer is lost.
	NoVoid   float64 `json:"noVoid"`
	VoidLost float64 `json:"voidLost"`
	// KeyRetention is how long a repeated key is recognised. LookupRetention is how long a lookup
	// finds a payout. 0 means for ever.
	KeyRetention    time.Duration `json:"-"`
	LookupRetention time.Duration `json:"-"`
}

// faultsJSON is the JSON form of Faults. Its durations are texts such as "1.5s".
type faultsJSON struct {
	*faultsFields
	SilenceFor      faults.Duration `json:"silenceFor"`
	SlowFor         faults.Duration `json:"slowFor"`
	LateFor         faults.Duration `json:"lateFor"`
	KeyRetention    faults.Duration `json:"keyRetention"`
	LookupRetention faults.Duration `json:"lookupRetention"`
}

type faultsFields Faults

func (f Faults) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultsJSON{
		faultsFields: (*faultsFields)(&f), SilenceFor: faults.Duration(f.SilenceFor), SlowFor: faults.Duration(f.SlowFor), LateFor: faults.Duration(f.LateFor),
		KeyRetention: faults.Duration(f.KeyRetention), LookupRetention: faults.Duration(f.LookupRetention),
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
	sum, err := faults.Sum(next.shares())
	if err != nil {
		return err
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

// faultOf returns the fault of the nth call (from 1) of a key.
func (f *Faults) faultOf(key string, n int) fault {
	if f.Down {
		return unavailable
	}
	return faults.Pick(f.shares(), f.chance(key, n))
}

// offersVoid reports whether the key can be voided.
func (f *Faults) offersVoid(key string) bool { return f.chance(key, 0) >= f.NoVoid }

// losesVoidAnswer reports whether the answer to the nth void (from 1) of the key is lost.
func (f *Faults) losesVoidAnswer(key string, n int) bool {
	return f.chance(voidKey(key), n) < f.VoidLost
}

// voidKey is the name under which the calls that void a key are counted.
func voidKey(key string) string { return key + "/void" }

func (f *Faults) chance(key string, n int) float64 { return faults.Chance(f.Seed, key, n) }

func (f *Faults) shares() []faults.FaultShare[fault] {
	return []faults.FaultShare[fault]{
		{Size: f.Refused, Fault: refused}, {Size: f.RefusedForGood, Fault: refusedForGood}, {Size: f.Busy, Fault: busy},
		{Size: f.Unavailable, Fault: unavailable}, {Size: f.Silent, Fault: silent}, {Size: f.Lost, Fault: lost}, {Size: f.Failed, Fault: failed},
		{Size: f.Slow, Fault: slow}, {Size: f.Late, Fault: late},
	}
}
