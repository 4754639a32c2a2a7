// Package coding evaluates the request headers Accept-Encoding and If-None-Match.
package coding

import (
	"net/http"
	"strconv"
	"strings"
)

// Accepts reports whether a header Accept-Encoding contains the coding (such as "gzip"), or "*",
// with a weight above zero (RFC 9110 §12.5.3).
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

// Unchanged reports whether If-None-Match contains the etag: the client has this version already.
// The comparison is the weak one (RFC 9110 §13.1.2).
func Unchanged(h http.Header, etag string) bool {
	for _, line := range h["If-None-Match"] {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
			if part == etag || part == "*" {
				return true
			}
		}
	}
	return false
}
