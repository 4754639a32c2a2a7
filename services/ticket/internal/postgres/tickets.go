package postgres

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// changeTickets issues the tickets of reservations that were confirmed, and takes back those of refunded ones.
func changeTickets(ctx context.Context, q *queries, changed []*change) error {
	var arg db.InsertTicketsParams
	var refunded []uuid.UUID
	for _, c := range changed {
		switch {
		case c.now.Status == reservation.Confirmed && c.was.Status != reservation.Confirmed:
			for _, t := range ticket.Issue(c.now) {
				arg = withTicket(arg, t)
			}
		case c.now.Status == reservation.Refunded && c.was.Status == reservation.Confirmed:
			refunded = append(refunded, c.was.ID)
		}
	}
	if len(arg.TicketIds) > 0 {
		if err := q.InsertTickets(ctx, arg); err != nil {
			return err
		}
	}
	if len(refunded) > 0 {
		if _, err := q.RefundTickets(ctx, refunded); err != nil {
			return err
		}
	}
	return nil
}

func withTicket(arg db.InsertTicketsParams, t ticket.Ticket) db.InsertTicketsParams {
	seat := ""
	if t.Seat != nil {
		seat = t.Seat.ID
	}
	arg.TicketIds = append(arg.TicketIds, t.ID)
	arg.ReservationIds = append(arg.ReservationIds, t.ReservationID)
	arg.EventIds = append(arg.EventIds, t.EventID)
	arg.UserIds = append(arg.UserIds, t.UserID)
	arg.Sections = append(arg.Sections, t.Section)
	arg.SeatIds = append(arg.SeatIds, seat)
	arg.Prices = append(arg.Prices, t.Price)
	arg.Currencies = append(arg.Currencies, t.Currency)
	return arg
}

var _ ticket.Store = (*Store)(nil)

// FindTicket implements ticket.Store.
func (s *Store) FindTicket(ctx context.Context, id uuid.UUID) (*ticket.Ticket, error) {
	row, err := s.queries(s.pool).FindTicket(ctx, id)
	if err != nil {
		return nil, orNotFound(err, ticket.ErrNotFound)
	}
	t := toTicket(row.Ticket)
	return &t, nil
}

// ListTickets implements ticket.Store.
func (s *Store) ListTickets(ctx context.Context, userID string, limit int, before uuid.UUID) ([]ticket.Ticket, error) {
	rows, err := s.queries(s.pool).ListTickets(ctx, db.ListTicketsParams{
		UserID: userID, Before: orLast(before), Max: int32(limit), //nolint:gosec // at most 101
	})
	if err != nil {
		return nil, postgres.Err(err)
	}
	list := make([]ticket.Ticket, len(rows))
	for i, r := range rows {
		list[i] = toTicket(r.Ticket)
	}
	return list, nil
}
