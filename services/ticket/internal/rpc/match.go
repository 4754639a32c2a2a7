package rpc

import (
	"strings"

	"urr.guru/services/ticket/internal/event"
)

// toMatch parses an If-Match header (RFC 9110 §13.1.1): * or a list of entity tags; nil without a
// header. Weak tags are accepted but never match, since If-Match requires the strong comparison.
func toMatch(header string) (*event.Match, error) {
	unparsed := strings.Trim(header, " \t")
	switch unparsed {
	case "":
		return nil, nil //nolint:nilnil // no condition
	case "*":
		return &event.Match{Any: true}, nil
	}
	m := &event.Match{}
	for unparsed != "" {
		tag, weak := strings.CutPrefix(unparsed, "W/")
		tag, quoted := strings.CutPrefix(tag, `"`)
		tag, after, closed := strings.Cut(tag, `"`)
		unparsed = strings.TrimLeft(after, " \t")
		next, more := strings.CutPrefix(unparsed, ",")
		if !quoted || !closed || unparsed != "" && !more {
			return nil, invalidField("If-Match", "must be * or a list of entity tags")
		}
		if !weak {
			m.ETags = append(m.ETags, tag)
		}
		unparsed = strings.TrimLeft(next, ", \t") // the RFC allows empty elements of a list
	}
	return m, nil
}
