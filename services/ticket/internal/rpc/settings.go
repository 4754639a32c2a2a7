package rpc

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
)

// fromSettings is the inverse of toSpec: what it returns may be put again and changes nothing.
func fromSettings(s *event.Settings) *ticketv1.EventSettings {
	e, etag := &s.Event, s.ETag()
	out := &ticketv1.EventSettings{
		Title: e.Title, Artist: e.Artist, Venue: e.Venue, StartsAt: timestamppb.New(e.StartsAt), SalesOpenAt: timestamppb.New(e.SalesOpenAt),
		SalesCloseAt: timestamppb.New(e.SalesCloseAt), Seating: string(e.Seating), Currency: e.Currency,
		MaxPerUser:  int32(e.MaxPerUser), //nolint:gosec // ≤ 1000
		HoldSeconds: holdSeconds(s), SlotSeconds: s.Line.SlotSeconds, Threshold: s.Line.Threshold, Etag: &etag,
		TimeZone: &e.TimeZone,
		Sections: make([]*ticketv1.SectionSpec, len(e.Sections)),
	}
	for i, sec := range e.Sections {
		spec := &ticketv1.SectionSpec{Section: sec.Name, Price: sec.Price}
		if e.Seating == event.Assigned {
			rows, perRow := int32(sec.Rows), int32(sec.SeatsPerRow) //nolint:gosec // ≤ 1000
			spec.Rows, spec.SeatsPerRow = &rows, &perRow
		} else {
			spec.Capacity = &sec.Capacity
		}
		out.Sections[i] = spec
	}
	return out
}

func holdSeconds(s *event.Settings) *int32 {
	if s.Event.HoldFor == 0 {
		return nil
	}
	n := int32(s.Event.HoldFor / time.Second) //nolint:gosec // ≤ 3600
	return &n
}

// toMatch reads an If-Match header (RFC 9110 §13.1.1): * or a list of entity tags. Weak ones are
// read and match nothing, since the comparison is the strong one. nil: there is no such header.
func toMatch(header string) (*event.Match, error) {
	rest := strings.Trim(header, " \t")
	switch rest {
	case "":
		return nil, nil //nolint:nilnil // nothing is demanded
	case "*":
		return &event.Match{Any: true}, nil
	}
	m := &event.Match{}
	for rest != "" {
		tag, weak := strings.CutPrefix(rest, "W/")
		tag, quoted := strings.CutPrefix(tag, `"`)
		tag, after, closed := strings.Cut(tag, `"`)
		rest = strings.TrimLeft(after, " \t")
		next, more := strings.CutPrefix(rest, ",")
		if !quoted || !closed || rest != "" && !more {
			return nil, invalid("If-Match", "must be * or a list of entity tags")
		}
		if !weak {
			m.ETags = append(m.ETags, tag)
		}
		rest = strings.TrimLeft(next, ", \t") // empty elements of a list are ignored
	}
	return m, nil
}
