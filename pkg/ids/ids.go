// Package ids defines which ids are well-formed. Ids are joined into keys (of caches, topics,
// signed bytes), so malformed ones are refused where requests enter: an id must not contain a
// separator (`#`, `:`, `{}`, or `-` between parts).
package ids

import (
	"strings"

	"github.com/google/uuid"
)

// Longest ids, and e-mail addresses, in bytes.
const (
	MaxEvent = 64
	MaxUser  = 63
	MaxSeat  = 64
	MaxEmail = 254 // RFC 5321 §4.5.3.1
)

// ValidEventID reports whether s is an event id: 1–64 of [A-Za-z0-9_-].
func ValidEventID(s string) bool {
	return len(s) >= 1 && len(s) <= MaxEvent && hasOnly(s, func(c byte) bool { return isAlnum(c) || c == '_' || c == '-' })
}

// ValidUser reports whether s is a user id: 1–63 of [A-Za-z0-9._@+-].
func ValidUser(s string) bool {
	return len(s) >= 1 && len(s) <= MaxUser && hasOnly(s, func(c byte) bool {
		return isAlnum(c) || c == '.' || c == '_' || c == '@' || c == '+' || c == '-'
	})
}

// ValidSectionOrRow reports whether s may be a section or a row: 1–20 of [A-Za-z0-9_], no hyphen,
// since a seat id is joined by hyphens.
func ValidSectionOrRow(s string) bool {
	return len(s) >= 1 && len(s) <= 20 && hasOnly(s, func(c byte) bool { return isAlnum(c) || c == '_' })
}

// ValidSeat reports whether s is a seat id: section-row-number, at most 64 bytes, the number 1–5
// digits without a leading zero.
func ValidSeat(s string) bool {
	_, _, _, ok := SplitSeat(s)
	return ok
}

// SplitSeat splits a seat id; ok is false when s is not a seat id.
func SplitSeat(s string) (section, row string, number int, ok bool) {
	if len(s) > MaxSeat {
		return "", "", 0, false
	}
	section, rest, found := strings.Cut(s, "-")
	row, digits, found2 := strings.Cut(rest, "-")
	if !found || !found2 || !ValidSectionOrRow(section) || !ValidSectionOrRow(row) || len(digits) < 1 || len(digits) > 5 || digits[0] == '0' {
		return "", "", 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return "", "", 0, false
		}
		number = number*10 + int(digits[i]-'0')
	}
	return section, row, number, true
}

// ValidUUID reports whether s is a UUID in its canonical form (lower case, hyphens), the only
// spelling allowed in keys.
func ValidUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// NewV7 makes a UUIDv7 (RFC 9562), which sorts by time. It panics when the system has no
// randomness, since nothing could be served safely.
func NewV7() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func hasOnly(s string, allowed func(byte) bool) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
