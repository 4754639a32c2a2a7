package postgres

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/ids"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

func toEvent(r db.Event, sections []db.SectionsRow) event.Event {
	e := event.Event{
		ID: r.EventID, Title: r.Title, Artist: r.Artist, Venue: r.Venue,
		StartsAt: r.StartsAt.UTC(), SalesOpenAt: r.SalesOpenAt.UTC(), SalesCloseAt: r.SalesCloseAt.UTC(),
		Seating: event.Seating(r.Seating), Currency: r.Currency, MaxPerUser: int(r.MaxPerUser), HoldFor: seconds(r.HoldSeconds),
		State: event.State(r.State), Version: r.Version, Sections: make([]event.Section, len(sections)),
	}
	for i, s := range sections {
		e.Sections[i] = event.Section{
			Name: s.Section, Price: s.Price, Capacity: s.Capacity,
			Rows: deref(s.SeatRows), SeatsPerRow: deref(s.SeatsPerRow), First: int(s.FirstIdx),
		}
	}
	return e
}

func seconds(n *int32) time.Duration { return time.Duration(deref(n)) * time.Second }

func deref(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

func toReservation(r db.Reservation, seats []reservation.Seat) *reservation.Reservation {
	return &reservation.Reservation{
		ID: r.ReservationID, EventID: r.EventID, UserID: r.UserID, SlotID: r.SlotID, Section: r.Section, Seats: seats,
		Quantity: int(r.Quantity), Amount: r.Amount, Currency: r.Currency, Status: reservation.Status(r.Status), Reason: r.Reason,
		ExpiresAt: r.ExpiresAt.UTC(), HoldEndsAt: r.HoldEndsAt.UTC(), PaymentID: r.PaymentID.UUID, Version: r.Version,
		CreatedAt: r.CreatedAt.UTC(),
	}
}

// seatsByReservation groups rows, each reservation's seats in the order in which people read them.
func seatsByReservation(rows []db.SeatsOfRow) map[uuid.UUID][]reservation.Seat {
	seats := make(map[uuid.UUID][]reservation.Seat)
	for _, r := range rows {
		seats[r.ReservationID] = append(seats[r.ReservationID], toSeat(r.SeatID, r.Price))
	}
	for _, s := range seats {
		sortSeats(s)
	}
	return seats
}

func toSeat(id string, price int64) reservation.Seat {
	section, row, number, _ := ids.SplitSeat(id)
	return reservation.Seat{ID: id, Section: section, Row: row, Number: number, Price: price}
}

func sortSeats(seats []reservation.Seat) {
	slices.SortFunc(seats, func(a, b reservation.Seat) int {
		return cmp.Or(strings.Compare(a.Section, b.Section), cmp.Compare(len(a.Row), len(b.Row)), strings.Compare(a.Row, b.Row),
			cmp.Compare(a.Number, b.Number))
	})
}

func toTicket(r db.Ticket) ticket.Ticket {
	t := ticket.Ticket{
		ID: r.TicketID, ReservationID: r.ReservationID, EventID: r.EventID, UserID: r.UserID, Section: r.Section, Price: r.Price,
		Currency: r.Currency, Status: ticket.Status(r.Status), Serial: int(r.Serial), IssuedAt: r.IssuedAt.UTC(),
	}
	if r.SeatID != nil {
		seat := toSeat(*r.SeatID, r.Price)
		t.Seat = &seat
	}
	return t
}
