package notices

import (
	"context"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// maxCodes is the most ticket codes in one e-mail. Buyers of more tickets find them on their page.
const maxCodes = 20

// Facts reads what an e-mail to a user contains about an event. It is empty without an event.
func (s *Store) Facts(ctx context.Context, eventID, userID string) (f notice.Facts, err error) {
	if eventID == "" { // a membership
		return f, nil
	}
	q := s.database.Queries()
	e, err := q.EventOfMail(ctx, db.EventOfMailParams{EventID: eventID, UserID: userID, Now: q.AsOf})
	if err != nil {
		return f, pkgpostgres.Err(err)
	}
	f = notice.Facts{Title: e.Title, Venue: e.Venue, TimeZone: e.TimeZone, StartsAt: e.StartsAt.UTC(), Owed: e.Owed, ContainsTicketCodes: e.Codes}
	if e.Refundable {
		f.FullRefundUntil = e.FeesUntil.UTC()
	}
	if !e.Codes {
		return f, nil
	}
	rows, err := q.TicketsOfMail(ctx, db.TicketsOfMailParams{EventID: eventID, UserID: userID, Max: maxCodes})
	for _, r := range rows {
		f.Tickets = append(f.Tickets, ticketOf(r))
	}
	return f, pkgpostgres.Err(err)
}

// ticketOf returns a ticket with the fields from which its code is made.
func ticketOf(r db.TicketsOfMailRow) ticket.Ticket {
	t := ticket.Ticket{ID: r.TicketID, EventID: r.EventID, Section: r.Section, Status: ticket.Valid, Serial: int(r.Serial)}
	if r.SeatID != nil {
		t.Seat = &reservation.Seat{ID: *r.SeatID}
	}
	return t
}
