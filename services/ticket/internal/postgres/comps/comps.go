// Package comps stores comps: orders without payment, of places that the organiser gives away.
package comps

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency/answers"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/comp"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

var _ comp.Store = (*Store)(nil)

// Store stores comps in PostgreSQL.
type Store struct{ database *postgres.Database }

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

func (s *Store) Make(ctx context.Context, req comp.Request, claimHash []byte) (order comp.Comp, renewed bool, err error) {
	var id uuid.UUID
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		earlierID, err := answers.Claim(ctx, tx, req.IdempotencyKey)
		if err != nil {
			return err
		}
		if earlierID != "" {
			id, renewed, err = renewClaim(ctx, tx, earlierID, claimHash)
			return err
		}
		t := makeTx{Tx: tx, req: req}
		if id, err = t.run(ctx, claimHash); err != nil {
			return err
		}
		renewed = claimHash != nil
		return answers.Keep(ctx, tx, req.IdempotencyKey, id.String())
	})
	if err != nil {
		return comp.Comp{}, false, err
	}
	s.database.Published()
	row, err := s.database.Queries().FindComp(ctx, id)
	if err != nil {
		return comp.Comp{}, false, pkgpostgres.Err(err)
	}
	list, err := s.withSeats(ctx, []db.ListCompsRow{db.ListCompsRow(row)})
	if err != nil {
		return comp.Comp{}, false, err
	}
	return list[0], renewed, nil
}

func renewClaim(ctx context.Context, tx *postgres.Tx, compID string, claimHash []byte) (id uuid.UUID, renewed bool, err error) {
	if id, err = uuid.Parse(compID); err != nil || claimHash == nil {
		return id, false, err
	}
	n, err := tx.RenewClaim(ctx, db.RenewClaimParams{ReservationID: id, ClaimHash: claimHash})
	return id, n == 1, err
}

// makeTx is the transaction that makes a comp. Like all transactions it locks seats first, then
// sections of general admission, then sections with seats.
type makeTx struct {
	*postgres.Tx

	req comp.Request
}

func (t *makeTx) run(ctx context.Context, claimHash []byte) (uuid.UUID, error) {
	if _, err := t.SaleOf(ctx, db.SaleOfParams{EventID: t.req.EventID, Now: t.AsOf}); err != nil {
		return uuid.Nil, postgres.OrNotFound(err, event.ErrNotFound)
	}
	if err := t.lock(ctx); err != nil {
		return uuid.Nil, err
	}
	// The state of the event may have changed while the transaction waited for the locks.
	sale, err := t.SaleOf(ctx, db.SaleOfParams{EventID: t.req.EventID, Now: t.ClockTime()})
	if err != nil {
		return uuid.Nil, err
	}
	if !event.State(sale.State).TakesPlace() {
		return uuid.Nil, event.ErrCancelled
	}
	order := reservation.Reservation{
		ID: reservation.NewID(), EventID: t.req.EventID, UserID: t.req.UserID, Section: t.req.Section, Quantity: t.req.Quantity, Currency: sale.Currency,
	}
	for _, id := range t.req.SeatIDs {
		order.Seats = append(order.Seats, reservation.NewSeat(id, 0))
	}
	reservation.SortSeats(order.Seats)
	return order.ID, t.save(ctx, reservation.NewComp(order, sale.Now.UTC()), claimHash)
}

// lock locks the places, and refuses places that the organiser does not keep (the house).
func (t *makeTx) lock(ctx context.Context) error {
	if len(t.req.SeatIDs) == 0 {
		return t.lockGeneralSection(ctx)
	}
	rows, err := postgres.LockSeatsForHouse.Take(ctx, t.Tx, db.LockSeatsForHouseParams{EventID: t.req.EventID, SeatIds: t.req.SeatIDs, Now: t.AsOf})
	if err != nil {
		return err
	}
	status := make(map[string]string, len(rows))
	for _, r := range rows {
		status[r.SeatID] = r.Status
	}
	var missing, notHouse []string
	for _, id := range t.req.SeatIDs {
		if status[id] == "" {
			missing = append(missing, id)
		} else if status[id] != event.SeatStatusHouse {
			notHouse = append(notHouse, id)
		}
	}
	switch {
	case len(missing) > 0:
		return event.ErrSeatNotFound.With("seatIds", strings.Join(missing, ","))
	case len(notHouse) > 0:
		return errs.ErrSeatTaken.With("seatIds", strings.Join(notHouse, ","))
	default:
		return nil
	}
}

func (t *makeTx) lockGeneralSection(ctx context.Context) error {
	rows, err := postgres.LockStanding.Take(ctx, t.Tx, db.LockStandingParams{EventID: t.req.EventID, Sections: []string{t.req.Section}})
	switch {
	case err != nil:
		return err
	case len(rows) == 0:
		return event.ErrSectionNotFound
	case rows[0].House < int64(t.req.Quantity):
		return errs.ErrSoldOut.With("section", t.req.Section)
	default:
		return nil
	}
}

func (t *makeTx) save(ctx context.Context, r *reservation.Reservation, claimHash []byte) error {
	err := t.InsertComp(ctx, db.InsertCompParams{
		ReservationID: r.ID, EventID: r.EventID, UserID: r.UserID, Section: r.Section, Quantity: int32(r.Quantity), Currency: r.Currency, //nolint:gosec // ≤ 1000
		CreatedAt: r.CreatedAt, Version: r.Version, Name: t.req.Name, ClaimHash: claimHash, SeatIds: r.SeatIDs(),
	})
	if err != nil {
		return err
	}
	n, err := t.SellHouseSeats(ctx, db.SellHouseSeatsParams{ReservationID: r.ID, EventID: r.EventID, SeatIds: r.SeatIDs()})
	if err := postgres.ExpectRows(n, len(r.Seats), "seats", err); err != nil {
		return err
	}
	if err := purchases.IssueTickets(ctx, t.Queries, []*reservation.Reservation{r}); err != nil {
		return err
	}
	deltas := make(postgres.CounterDeltas)
	if len(r.Seats) == 0 {
		n := int64(r.Quantity)
		deltas.Add(r.EventID, r.Section, postgres.CounterDelta{Sold: n, House: -n})
	}
	for _, seat := range r.Seats {
		deltas.Add(r.EventID, seat.Section, postgres.CounterDelta{Sold: 1, House: -1})
	}
	if err := t.AddToCounters(ctx, deltas); err != nil {
		return err
	}
	return purchases.InsertReservationEvents(ctx, t.Tx, r.TakeEvents())
}

func (s *Store) List(ctx context.Context, eventID string, limit int, before uuid.UUID) ([]comp.Comp, error) {
	rows, err := s.database.ReadQueries().ListComps(ctx, db.ListCompsParams{
		EventID: eventID, Before: postgres.OrMaxUUID(before), Max: int32(limit), //nolint:gosec // at most 101
	})
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	return s.withSeats(ctx, rows)
}

func (s *Store) withSeats(ctx context.Context, rows []db.ListCompsRow) ([]comp.Comp, error) {
	reservationRows := make([]db.Reservation, len(rows))
	for i, r := range rows {
		reservationRows[i] = r.Reservation
	}
	orders, err := purchases.ReservationsOfRows(ctx, s.database.ReadQueries(), reservationRows)
	if err != nil {
		return nil, err
	}
	list := make([]comp.Comp, len(rows))
	for i, r := range rows {
		list[i] = comp.Comp{Reservation: orders[i], Name: r.Name, ByLink: r.ByLink, TicketIDs: r.TicketIds}
	}
	return list, nil
}

// Claim gives a comp's tickets to a user and stores a notice. It locks the order, then the tickets.
func (s *Store) Claim(ctx context.Context, claimHash []byte, userID string, to purchase.Contact) (comp.Comp, error) {
	var id uuid.UUID
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		row, err := postgres.LockComp.Take(ctx, tx, claimHash)
		if err != nil {
			return postgres.OrNotFound(err, ticket.ErrNotFound)
		}
		id = row.ReservationID
		switch row.UserID {
		case userID:
			return nil
		case "":
		default:
			return ticket.ErrNotFound
		}
		n, err := tx.GiveComp(ctx, db.GiveCompParams{ReservationID: id, UserID: userID, Email: to.Email, Language: to.Language})
		if err := postgres.ExpectRows(n, 1, "reservations", err); err != nil {
			return err
		}
		rows, err := postgres.GiveTickets.Take(ctx, tx, db.GiveTicketsParams{ReservationID: id, UserID: userID})
		if err != nil {
			return err
		}
		var given []ticket.Ticket
		for _, r := range rows {
			if t := purchases.TicketOfRow(r.Ticket, r.Valid); t.Status == ticket.Valid {
				given = append(given, t)
			}
		}
		return notices.Insert(ctx, tx.Queries, notice.ForNewTickets(given))
	})
	if err != nil {
		return comp.Comp{}, err
	}
	found, _, err := purchases.FindReservation(ctx, s.database.Queries(), id)
	if err != nil {
		return comp.Comp{}, err
	}
	return comp.Comp{Reservation: *found}, nil
}
