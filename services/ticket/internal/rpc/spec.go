package rpc

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
)

func toSpec(in *ticketv1.EventSpec) event.Spec {
	s := event.Spec{
		Title: in.GetTitle(), Artist: in.GetArtist(), Venue: in.GetVenue(), StartsAt: in.GetStartsAt().AsTime(),
		SalesOpenAt: in.GetSalesOpenAt().AsTime(), SalesCloseAt: in.GetSalesCloseAt().AsTime(),
		Seating: event.Seating(in.GetSeating()), Currency: in.GetCurrency(), MaxPerUser: int(in.GetMaxPerUser()),
		HoldSeconds: in.HoldSeconds, SlotSeconds: in.SlotSeconds, Threshold: in.Threshold, TimeZone: in.TimeZone,
		Sections: make([]event.Section, len(in.GetSections())),
	}
	for i, sec := range in.GetSections() {
		s.Sections[i] = event.Section{
			Name: sec.GetSection(), Price: sec.GetPrice(), Capacity: sec.GetCapacity(),
			Rows: int(sec.GetRows()), SeatsPerRow: int(sec.GetSeatsPerRow()),
		}
	}
	return s
}

// fromSpec is the inverse of toSpec: a PUT of its result changes nothing.
func fromSpec(s *event.Spec) *ticketv1.EventSpec {
	out := &ticketv1.EventSpec{
		Title: s.Title, Artist: s.Artist, Venue: s.Venue, StartsAt: timestamppb.New(s.StartsAt),
		SalesOpenAt: timestamppb.New(s.SalesOpenAt), SalesCloseAt: timestamppb.New(s.SalesCloseAt),
		Seating: string(s.Seating), Currency: s.Currency, MaxPerUser: int32(s.MaxPerUser), //nolint:gosec // ≤ 1000
		HoldSeconds: s.HoldSeconds, SlotSeconds: s.SlotSeconds, Threshold: s.Threshold, TimeZone: s.TimeZone,
		Sections: make([]*ticketv1.SectionSpec, len(s.Sections)),
	}
	for i, sec := range s.Sections {
		spec := &ticketv1.SectionSpec{Section: sec.Name, Price: sec.Price}
		if s.Seating == event.Assigned {
			spec.Rows, spec.SeatsPerRow = new(int32(sec.Rows)), new(int32(sec.SeatsPerRow)) //nolint:gosec // ≤ 1000
		} else {
			spec.Capacity = new(sec.Capacity)
		}
		out.Sections[i] = spec
	}
	return out
}

// fromSnapshot returns the event as visitors see it.
func fromSnapshot(s *event.Snapshot) *ticketv1.Event {
	e := &s.Event
	return &ticketv1.Event{
		EventId: e.ID, Title: e.Title, Artist: e.Artist, Venue: e.Venue, StartsAt: timestamppb.New(e.StartsAt),
		SalesOpenAt: timestamppb.New(e.SalesOpenAt), SalesCloseAt: timestamppb.New(e.SalesCloseAt), Seating: string(e.Seating),
		Sections: fromSections(s), Currency: e.Currency, MaxPerUser: int32(e.MaxPerUser), //nolint:gosec // ≤ 1000
		TimeZone: e.TimeZone, Status: string(s.Status()), PostponedFrom: timestamp(e.PostponedFrom), RefundsAt: timestamp(e.RefundsAt),
	}
}
