// Package orders reads orders for operators: reservations with their tickets and scans.
package orders

import (
	"context"
	"slices"

	"github.com/google/uuid"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/order"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/postgres/scans"
	"urr.guru/services/ticket/internal/reservation"
)

var _ order.Store = (*Store)(nil)

// Store reads orders. It uses the pool of connections for reads.
type Store struct{ database *postgres.Database }

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

func (s *Store) SearchOrders(ctx context.Context, c order.Criteria, limit int, before uuid.UUID) ([]order.Order, error) {
	q := s.database.ReadQueries()
	if c.ReservationID == uuid.Nil && c.TicketID == uuid.Nil && c.SeatID == "" {
		ids, err := pageOfIDs(ctx, q, c, limit, postgres.OrMaxUUID(before))
		if err != nil {
			return nil, pkgpostgres.Err(err)
		}
		return readOrders(ctx, q, ids)
	}
	// Few orders match a reservation, a ticket or a seat, so Go applies the other criteria.
	ids, err := idsMatching(ctx, q, c)
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	list, err := readOrders(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	holders, err := ordersHeldBy(ctx, q, ids, c.UserID)
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	list = slices.DeleteFunc(list, func(o order.Order) bool {
		return c.EventID != "" && o.EventID != c.EventID || c.UserID != "" && o.UserID != c.UserID && !holders[o.ID] ||
			before != uuid.Nil && o.ID.String() >= before.String()
	})
	return list[:min(limit, len(list))], nil
}

// pageOfIDs returns a page of ids of orders: a user's, an event's, or a user's for an event.
func pageOfIDs(ctx context.Context, q *postgres.Queries, c order.Criteria, limit int, before uuid.UUID) ([]uuid.UUID, error) {
	if c.UserID == "" {
		return q.OrdersOfEvent(ctx, db.OrdersOfEventParams{EventID: c.EventID, Before: before, Max: int32(limit)}) //nolint:gosec // at most 101
	}
	return q.OrdersOfUser(ctx, db.OrdersOfUserParams{
		UserID: c.UserID, EventID: c.EventID, Before: before, Max: int32(limit), //nolint:gosec // at most 101
	})
}

// idsMatching returns the ids of the orders that match all of the reservation, the ticket and the
// seat in the criteria, of which at least one is given.
func idsMatching(ctx context.Context, q *postgres.Queries, c order.Criteria) ([]uuid.UUID, error) {
	var all [][]uuid.UUID
	if c.ReservationID != uuid.Nil {
		all = append(all, []uuid.UUID{c.ReservationID})
	}
	if c.TicketID != uuid.Nil {
		ids, err := q.ReservationsOf(ctx, []uuid.UUID{c.TicketID})
		if err != nil {
			return nil, err
		}
		all = append(all, ids)
	}
	if c.SeatID != "" {
		ids, err := q.OrdersOfSeat(ctx, db.OrdersOfSeatParams{EventID: c.EventID, SeatID: c.SeatID})
		if err != nil {
			return nil, err
		}
		all = append(all, ids)
	}
	return slices.DeleteFunc(all[0], func(id uuid.UUID) bool {
		return slices.ContainsFunc(all[1:], func(ids []uuid.UUID) bool { return !slices.Contains(ids, id) })
	}), nil
}

// ordersHeldBy returns the orders of which the user has or had a ticket; none if userID is empty.
func ordersHeldBy(ctx context.Context, q *postgres.Queries, ids []uuid.UUID, userID string) (map[uuid.UUID]bool, error) {
	if userID == "" {
		return nil, nil //nolint:nilnil // an empty map
	}
	rows, err := q.HoldersOfOrders(ctx, ids)
	holders := make(map[uuid.UUID]bool)
	for _, r := range rows {
		holders[r.ReservationID] = holders[r.ReservationID] || r.UserID == userID
	}
	return holders, err
}

// readOrders reads the orders with these ids, newest first.
func readOrders(ctx context.Context, q *postgres.Queries, ids []uuid.UUID) ([]order.Order, error) {
	rows, err := q.FindOrders(ctx, db.FindOrdersParams{ReservationIds: ids, Now: q.AsOf})
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	reservationRows := make([]db.Reservation, len(rows))
	for i, r := range rows {
		reservationRows[i] = r.Reservation
	}
	list, err := purchases.ReservationsOfRows(ctx, q, reservationRows)
	if err != nil {
		return nil, err
	}
	out := make([]order.Order, len(rows))
	for i, r := range rows {
		out[i] = order.Order{Reservation: list[i].At(r.Now), UpdatedAt: r.Reservation.UpdatedAt.UTC()}
	}
	return out, nil
}

func (s *Store) FindOrder(ctx context.Context, id uuid.UUID) (*order.Detail, error) {
	q := s.database.ReadQueries()
	found, err := readOrders(ctx, q, []uuid.UUID{id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, reservation.ErrNotFound
	}
	d := &order.Detail{Order: found[0]}
	rows, err := q.TicketsOfOrder(ctx, id)
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.Ticket.TicketID
		d.Tickets = append(d.Tickets, order.Ticket{Ticket: purchases.TicketOfRow(r.Ticket, r.Valid), Previous: r.Ticket.Prev.UUID})
	}
	voidRows, err := q.VoidsOfTickets(ctx, ids)
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	for _, r := range voidRows {
		i := slices.Index(ids, r.TicketID)
		d.Tickets[i].Void = &order.Void{Operator: r.Operator, Reason: r.Reason, At: r.VoidedAt.UTC()}
	}
	scanRows, err := q.ScansOfTickets(ctx, ids)
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	for _, r := range scanRows {
		d.Scans = append(d.Scans, scans.FromRow(r.Scan))
	}
	return d, nil
}
