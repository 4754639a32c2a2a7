package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

// HoldSeats implements reservation.Holder.
func (h *Holds) HoldSeats(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	return through(ctx, h.gate, func(ctx context.Context) (*reservation.Reservation, error) { return h.holdInTx(ctx, req) })
}

func (s *Store) holdInTx(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	var held *reservation.Reservation
	err := postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := s.queries(tx)
		made, err := answers.Claim(ctx, tx, req.Once)
		if err != nil {
			return err
		}
		if made != "" {
			held, err = asMade(ctx, q, made)
			return err
		}
		held, err = s.holdSeats(ctx, tx, q, req)
		if err != nil {
			return err
		}
		return answers.Keep(ctx, tx, req.Once, held.ID.String())
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("ticket.hold.after_commit")
	s.published()
	return held, nil
}

func (s *Store) holdSeats(
	ctx context.Context, tx pgx.Tx, q *queries, req reservation.SeatsRequest,
) (*reservation.Reservation, error) {
	sale, err := admit(ctx, tx, q, req)
	if err != nil {
		return nil, err
	}
	hold := reservation.Hold{
		ID: reservation.NewID(), EventID: req.EventID, UserID: req.UserID, SlotID: req.SlotID, Quantity: len(req.SeatIDs),
		Currency: sale.Currency, For: s.holdTime(sale),
	}
	now := sale.Now.UTC()
	rows, err := claimSeats(ctx, q, req, hold.ID, now.Add(hold.For))
	if err != nil {
		return nil, err
	}
	previous, err := takeClaimed(rows, req, &hold)
	if err != nil {
		return nil, err
	}
	events, err := expireTaken(ctx, q, previous)
	if err != nil {
		return nil, err
	}
	held := reservation.NewHeld(hold, now)
	if err := insertHold(ctx, q, held); err != nil {
		return nil, err
	}
	return held, s.insertEvents(ctx, tx, append(events, held.TakeEvents()...))
}

// admit takes the user's lock, so that nobody adds to what the user has, and checks what does not depend on the seats.
func admit(ctx context.Context, tx pgx.Tx, q *queries, req reservation.SeatsRequest) (db.SaleOfRow, error) {
	row, used, err := lockAndRead(ctx, tx, q, req)
	if err != nil {
		return row, orNotFound(err, event.ErrNotFound)
	}
	if event.Seating(row.Seating) != event.Assigned {
		return row, event.ErrSeatingMismatch
	}
	sale := toSale(row)
	if err := sale.Admits(row.Now); err != nil {
		return row, err
	}
	return row, reservation.CheckLimit(used, len(req.SeatIDs), sale.MaxPerUser)
}

// lockAndRead sends two statements at once: the second one still begins after the first has its lock, and sees what was committed until
// then.
func lockAndRead(
	ctx context.Context, tx pgx.Tx, q *queries, req reservation.SeatsRequest,
) (row db.SaleOfRow, used int64, err error) {
	var b pgx.Batch
	b.Queue(db.LockUser, userLock(req.EventID, req.UserID))
	b.Queue(db.SaleFor, q.now, req.UserID, req.EventID).QueryRow(func(r pgx.Row) error {
		return r.Scan(&row.Seating, &row.State, &row.SalesOpenAt, &row.SalesCloseAt, &row.MaxPerUser, &row.Currency, &row.HoldSeconds,
			&row.Now, &used)
	})
	err = tx.SendBatch(ctx, &b).Close()
	return row, used, err
}

func toSale(r db.SaleOfRow) event.Sale {
	return event.Sale{State: event.State(r.State), OpenAt: r.SalesOpenAt, CloseAt: r.SalesCloseAt, MaxPerUser: int(r.MaxPerUser)}
}

func usedBy(ctx context.Context, q *queries, eventID string, users []string) (map[string]int64, error) {
	rows, err := q.UsedBy(ctx, db.UsedByParams{EventID: eventID, UserIds: users, Now: q.now})
	if err != nil {
		return nil, err
	}
	used := make(map[string]int64, len(rows))
	for _, r := range rows {
		used[r.UserID] = r.Used
	}
	return used, nil
}

// holdTime is how long a hold of this sale lives.
func (s *Store) holdTime(sale db.SaleOfRow) time.Duration {
	if sale.HoldSeconds != nil {
		return seconds(sale.HoldSeconds)
	}
	return s.holdFor
}

// claimSeats gives the seats to the reservation, or tells which are taken.
func claimSeats(
	ctx context.Context, q *queries, req reservation.SeatsRequest, id uuid.UUID, until time.Time,
) ([]db.ClaimSeatsRow, error) {
	arg := db.ClaimSeatsParams{EventID: req.EventID, SeatIds: req.SeatIDs, ReservationID: id, HeldUntil: until, Now: q.now}
	if !req.Impatient {
		return q.ClaimSeats(ctx, arg)
	}
	free, err := q.ClaimFreeSeats(ctx, db.ClaimFreeSeatsParams(arg))
	rows := make([]db.ClaimSeatsRow, len(free))
	for i, r := range free {
		rows[i] = db.ClaimSeatsRow(r)
	}
	return rows, err
}

// takeClaimed completes the hold with its seats and their prices, and returns the reservations they were taken over from.
func takeClaimed(rows []db.ClaimSeatsRow, req reservation.SeatsRequest, hold *reservation.Hold) ([]uuid.UUID, error) {
	if len(rows) != len(req.SeatIDs) {
		return nil, event.ErrSeatNotFound.With("seatIds", strings.Join(missing(rows, req.SeatIDs), ","))
	}
	var taken []string
	claimed := 0
	over := make(map[uuid.UUID]struct{})
	for _, r := range rows {
		switch {
		case r.Claimed:
			claimed++
		case r.Taken:
			taken = append(taken, r.SeatID)
		}
		if r.Previous != uuid.Nil {
			over[r.Previous] = struct{}{}
		}
		hold.Seats = append(hold.Seats, toSeat(r.SeatID, r.Price))
		hold.Amount += r.Price
	}
	if claimed < len(rows) {
		if len(taken) == 0 { // none of them, but a seat that would have become free with one of them
			taken = req.SeatIDs
		}
		return nil, reservation.Taken(taken)
	}
	sortSeats(hold.Seats)
	previous := make([]uuid.UUID, 0, len(over))
	for id := range over {
		previous = append(previous, id)
	}
	return previous, nil
}

func missing(rows []db.ClaimSeatsRow, ids []string) []string {
	found := make(map[string]bool, len(rows))
	for _, r := range rows {
		found[r.SeatID] = true
	}
	var out []string
	for _, id := range ids {
		if !found[id] {
			out = append(out, id)
		}
	}
	return out
}

// expireTaken ends reservations whose seats the claim has taken or freed already: the rest of save's work.
func expireTaken(ctx context.Context, q *queries, ids []uuid.UUID) ([]reservation.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	seatRows, err := q.SeatsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	set, err := read(ctx, q, ids, seatsByReservation(seatRows))
	if err != nil {
		return nil, err
	}
	for _, c := range set.list {
		if !c.now.Expire(set.at) {
			return nil, fmt.Errorf("reservation %s lost its seats while it was %s", c.was.ID, c.was.Status)
		}
	}
	if err := updateReservations(ctx, q, set.list); err != nil {
		return nil, err
	}
	return takeEvents(set.list), endSeats(ctx, q, set.list)
}

func insertHold(ctx context.Context, q *queries, r *reservation.Reservation) error {
	prices := make([]int64, len(r.Seats))
	for i, s := range r.Seats {
		prices[i] = s.Price
	}
	return q.InsertHold(ctx, db.InsertHoldParams{
		ReservationID: r.ID, EventID: r.EventID, SeatIds: r.SeatIDs(), Prices: prices, UserID: r.UserID, SlotID: r.SlotID,
		Quantity: int32(r.Quantity), Amount: r.Amount, Currency: r.Currency, ExpiresAt: r.ExpiresAt, CreatedAt: r.CreatedAt, //nolint:gosec // ≤ 1000
	})
}
