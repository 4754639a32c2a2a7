package rpc

import (
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

func fromSections(s *event.Snapshot) []*ticketv1.Section {
	out := make([]*ticketv1.Section, len(s.Event.Sections))
	for i, sec := range s.Event.Sections {
		out[i] = &ticketv1.Section{
			Section: sec.Name, Price: sec.Price, Fee: sec.Fee, Capacity: sec.Capacity, Free: s.Free[i], Seating: string(sec.Seating()),
		}
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
		m.Sections[i] = &ticketv1.SeatMapSection{Section: s.Name, Rows: rows}
	}
	return m
}

func fromAvailability(s *event.Snapshot) *ticketv1.Availability {
	return &ticketv1.Availability{
		EventId: s.Event.ID, Bitmap: s.Bitmap, Etag: s.ETag, Sections: fromSections(s), Seats: int64(s.Event.Seats()),
	}
}

func fromLineSettings(l event.LineSettings) *ticketv1.LineSettings {
	out := &ticketv1.LineSettings{
		EventId: l.EventID, Threshold: l.Threshold, SlotSeconds: l.SlotSeconds, Paused: l.Paused, BlockedUsers: l.BlockedUsers,
		Closed: l.Closed, NeverOpened: l.NeverOpened, Act: l.Act, LaterAct: l.LaterAct,
	}
	if l.ClosesAt != nil {
		out.ClosesAt = timestamppb.New(*l.ClosesAt)
	}
	return out
}

func fromSaleStatus(eventID string, s event.SaleStatus) *ticketv1.SaleStatus {
	return &ticketv1.SaleStatus{
		EventId: eventID, Status: string(s.Status), PresaleOpensAt: timestamp(s.PresaleOpensAt), OpensAt: timestamppb.New(s.OpensAt),
		ClosesAt:      timestamppb.New(s.ClosesAt),
		MeasuredAgoMs: s.Age.Milliseconds(), SettingsVersion: s.SettingsVersion,
	}
}

func fromReservation(r *reservation.Reservation) *ticketv1.Reservation {
	out := &ticketv1.Reservation{
		ReservationId: r.ID.String(), EventId: r.EventID, UserId: r.UserID, Section: r.Section, Quantity: int32(r.Quantity), //nolint:gosec // ≤ 1000
		Amount: r.Amount, Currency: r.Currency, Status: string(r.Status), ExpiresAt: timestamp(r.Until),
		CreatedAt: timestamp(r.CreatedAt), Seats: make([]*ticketv1.Seat, len(r.Seats)),
	}
	for i := range r.Seats {
		out.Seats[i] = fromSeat(&r.Seats[i])
	}
	if r.Status == reservation.Paying {
		out.PaymentId = new(r.PaymentID.String())
	}
	return out
}

func fromSeat(s *reservation.Seat) *ticketv1.Seat {
	return &ticketv1.Seat{SeatId: s.ID, Section: s.Section, Row: s.Row, Number: int32(s.Number), Price: s.Price} //nolint:gosec // ≤ MaxSeats
}

func fromTicket(t *ticket.View, code string) *ticketv1.Ticket {
	out := &ticketv1.Ticket{
		TicketId: t.ID.String(), Code: code, EventId: t.EventID, Section: t.Section, Status: string(t.Status),
		ReservationId: t.ReservationID.String(), IssuedAt: timestamp(t.IssuedAt), Price: t.Price, Fee: t.Fee, Currency: t.Currency,
		Refundable: fromOffer(refund.OfferTo(&t.Ticket, refund.Terms{AfterSaleTerms: t.Closing, Now: t.Now})),
	}
	out.Transferable = fromPossible(transfer.PossibleFor(&t.Ticket, transfer.Terms{AfterSaleTerms: t.Closing, Now: t.Now}), t.Offer)
	if t.PaymentID != uuid.Nil {
		out.PaymentId = new(t.PaymentID.String())
	}
	if t.Seat != nil {
		out.Seat = fromSeat(t.Seat)
	}
	return out
}

func fromOffer(o refund.Offer) *ticketv1.Refundable {
	out := &ticketv1.Refundable{Until: timestamp(o.Until), Amount: o.Amount, FullUntil: timestamp(o.FullUntil)}
	if o.Reason != "" {
		out.Reason = &o.Reason
	}
	return out
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
