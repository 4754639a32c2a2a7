// Package coding negotiates the coding of responses.
package coding

import (
	"strconv"
	"strings"
)

// Accepts evaluates Accept-Encoding (RFC 9110 §12.5.3): the coding is named or matched by "*", with
// a weight above zero.
func Accepts(header, coding string) bool {
	wildcard := false
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		weight := strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		accepted := err != nil || q > 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case coding:
			return accepted
		case "*":
			wildcard = accepted
		}
	}
	return wildcard
}
