// Package currency knows the currencies of ISO 4217 and how many decimal digits their amounts have.
//
// The table iso4217.json lists the codes by the number of digits: the active currencies that have a
// minor unit, as of 1 January 2026 (from SIX, the standard's maintenance agency). Web pages read
// the same file, since browsers differ from the standard: for some currencies they show as many
// digits as prices usually have.
package currency

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed iso4217.json
var table []byte

var digits = sync.OnceValue(func() map[string]int {
	var codes struct{ None, Two, Three, Four string }
	if err := json.Unmarshal(table, &codes); err != nil {
		panic("iso4217.json: " + err.Error())
	}
	out := map[string]int{}
	for n, list := range map[int]string{0: codes.None, 2: codes.Two, 3: codes.Three, 4: codes.Four} {
		for code := range strings.FieldsSeq(list) {
			out[code] = n
		}
	}
	return out
})

// Codes returns the codes of all currencies with a minor unit, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(digits())) }

// Known reports whether a code such as "KRW" is a currency with a minor unit.
func Known(code string) bool {
	_, known := digits()[code]
	return known
}

// Digits returns the number of decimal digits of a currency, and 0 for an unknown code. It is 2 for
// USD, so that 1999 in the minor unit is 19.99.
func Digits(code string) int { return digits()[code] }
