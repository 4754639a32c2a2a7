package rpc

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// specRequest is what the requests that create and put an event have in common, except for its
// optional settings: their getters do not tell 0 from absent.
type specRequest interface {
	GetTitle() string
	GetArtist() string
	GetVenue() string
	GetStartsAt() *timestamppb.Timestamp
	GetSalesOpenAt() *timestamppb.Timestamp
	GetSalesCloseAt() *timestamppb.Timestamp
	GetSeating() string
	GetCurrency() string
	GetMaxPerUser() int32
	GetSections() []*ticketv1.SectionSpec
}

// optionalSettings are the settings of an event that a request may leave out.
type optionalSettings struct {
	holdSeconds *int32
	slotSeconds *int32
	threshold   *int64
	timeZone    *string
}

func toSpec(req specRequest, optional optionalSettings) event.Spec {
	s := event.Spec{
		Title: req.GetTitle(), Artist: req.GetArtist(), Venue: req.GetVenue(), StartsAt: req.GetStartsAt().AsTime(),
		SalesOpenAt: req.GetSalesOpenAt().AsTime(), SalesCloseAt: req.GetSalesCloseAt().AsTime(),
		Seating: event.Seating(req.GetSeating()), Currency: req.GetCurrency(), MaxPerUser: int(req.GetMaxPerUser()),
		HoldSeconds: optional.holdSeconds, SlotSeconds: widen(optional.slotSeconds), Threshold: optional.threshold,
		TimeZone: optional.timeZone, Sections: make([]event.SectionSpec, len(req.GetSections())),
	}
	for i, sec := range req.GetSections() {
		s.Sections[i] = event.SectionSpec{
			Name: sec.GetSection(), Price: sec.GetPrice(), Rows: sec.Rows, SeatsPerRow: sec.SeatsPerRow, Capacity: sec.Capacity,
		}
	}
	return s
}

func widen(n *int32) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

// fingerprint is what a request asks for, without who asks.
func fingerprint(req *ticketv1.CreateEventRequest) (string, error) {
	asked, _ := proto.Clone(req).(*ticketv1.CreateEventRequest)
	asked.Caller = nil
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(asked)
	return string(b), err
}

func fromSnapshot(s *event.Snapshot) *ticketv1.Event {
	e := &s.Event
	return &ticketv1.Event{
		EventId: e.ID, Title: e.Title, Artist: e.Artist, Venue: e.Venue, StartsAt: timestamppb.New(e.StartsAt),
		SalesOpenAt: timestamppb.New(e.SalesOpenAt), SalesCloseAt: timestamppb.New(e.SalesCloseAt), Seating: string(e.Seating),
		Sections: fromSections(s), Currency: e.Currency, MaxPerUser: int32(e.MaxPerUser), Status: string(s.Status()), //nolint:gosec // ≤ 1000
		TimeZone: &e.TimeZone,
	}
}

func fromSections(s *event.Snapshot) []*ticketv1.Section {
	out := make([]*ticketv1.Section, len(s.Event.Sections))
	for i, sec := range s.Event.Sections {
		out[i] = &ticketv1.Section{Section: sec.Name, Price: sec.Price, Capacity: sec.Capacity, Free: s.Free[i]}
	}
	return out
}

func fromLayout(e *event.Event) *ticketv1.SeatMap {
	l := e.Layout()
	m := &ticketv1.SeatMap{
		EventId: e.ID, Seating: string(e.Seating), Seats: int64(l.Seats), Etag: l.ETag,
		Sections: make([]*ticketv1.SeatMapSection, len(l.Sections)),
	}
	for i, s := range l.Sections {
		rows := make([]*ticketv1.SeatMapRow, len(s.Rows))
		for j, r := range s.Rows {
			rows[j] = &ticketv1.SeatMapRow{Row: r.Name, Seats: int32(r.Seats), X: int32(r.X), Y: int32(r.Y)} //nolint:gosec // ≤ MaxSeats
		}
		m.Sections[i] = &ticketv1.SeatMapSection{Section: s.Name, Price: s.Price, Rows: rows}
	}
	return m
}

func fromAvailability(s *event.Snapshot) *ticketv1.Availability {
	a := &ticketv1.Availability{EventId: s.Event.ID, Bitmap: s.Bitmap, Etag: s.ETag, Sections: fromSections(s)}
	for _, sec := range s.Event.Sections {
		a.Seats += int64(sec.Rows) * int64(sec.SeatsPerRow)
	}
	return a
}

func fromLineSettings(l event.LineSettings) *ticketv1.LineSettings {
	out := &ticketv1.LineSettings{
		EventId: l.EventID, Threshold: l.Threshold, SlotSeconds: l.SlotSeconds, Paused: l.Paused, BlockedUsers: l.BlockedUsers,
		Closed: l.Closed, NeverOpened: l.NeverOpened,
	}
	if l.ClosesAt != nil {
		out.ClosesAt = timestamppb.New(*l.ClosesAt)
	}
	return out
}

func fromSaleStatus(eventID string, s event.SaleStatus) *ticketv1.SaleStatus {
	return &ticketv1.SaleStatus{
		EventId: eventID, Status: string(s.Status), OpensAt: timestamppb.New(s.OpensAt), ClosesAt: timestamppb.New(s.ClosesAt),
		MeasuredAgoMs: s.Age.Milliseconds(), SettingsVersion: s.SettingsVersion,
	}
}

func fromReservation(r *reservation.Reservation) *ticketv1.Reservation {
	out := &ticketv1.Reservation{
		ReservationId: r.ID.String(), EventId: r.EventID, UserId: r.UserID, Section: r.Section, Quantity: int32(r.Quantity), //nolint:gosec // ≤ 1000
		Amount: r.Amount, Currency: r.Currency, Status: string(r.Status), ExpiresAt: timestamp(r.ExpiresAt),
		CreatedAt: timestamp(r.CreatedAt), Seats: make([]*ticketv1.Seat, len(r.Seats)),
	}
	for i := range r.Seats {
		out.Seats[i] = fromSeat(&r.Seats[i])
	}
	return out
}

func fromSeat(s *reservation.Seat) *ticketv1.Seat {
	return &ticketv1.Seat{SeatId: s.ID, Section: s.Section, Row: s.Row, Number: int32(s.Number), Price: s.Price} //nolint:gosec // ≤ MaxSeats
}

func fromTicket(t *ticket.Ticket, code string) *ticketv1.Ticket {
	out := &ticketv1.Ticket{
		TicketId: t.ID.String(), Code: code, EventId: t.EventID, Section: t.Section, Status: string(t.Status),
		ReservationId: t.ReservationID.String(), IssuedAt: timestamp(t.IssuedAt),
	}
	if t.Seat != nil {
		out.Seat = fromSeat(t.Seat)
	}
	return out
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
