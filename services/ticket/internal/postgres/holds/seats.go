package holds

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

// HoldSeats implements reservation.Holder.
func (s *Store) HoldSeats(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	return limited(ctx, s.limiter, func(ctx context.Context) (held *reservation.Reservation, err error) {
		err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
			held, err = replay(ctx, tx, req.IdempotencyKey)
			if held != nil || err != nil {
				return err
			}
			if held, err = s.holdSeats(ctx, tx, req); err != nil {
				return err
			}
			return answers.Keep(ctx, tx, req.IdempotencyKey, held.ID.String())
		})
		if err != nil {
			return nil, err
		}
		failpoint.Hit("ticket.hold.after_commit")
		s.database.Published()
		return held, nil
	})
}

func (s *Store) holdSeats(ctx context.Context, tx *postgres.Tx, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	sale, err := admit(ctx, tx, req)
	if err != nil {
		return nil, err
	}
	hold := reservation.Hold{
		ID: reservation.NewID(), EventID: req.EventID, UserID: req.UserID, SlotID: req.SlotID, Quantity: len(req.SeatIDs),
		Currency: sale.Currency, For: s.lifetime(sale),
	}
	now := sale.Now.UTC()
	rows, err := claimSeats(ctx, tx.Queries, req, hold.ID, now.Add(hold.For))
	if err != nil {
		return nil, err
	}
	previous, err := addClaimed(&hold, rows, req)
	if err != nil {
		return nil, err
	}
	events, err := reservations.ExpireTakenOver(ctx, tx, previous)
	if err != nil {
		return nil, err
	}
	held := reservation.NewHeld(hold, now)
	if err := insertHold(ctx, tx.Queries, held); err != nil {
		return nil, err
	}
	return held, reservations.InsertEvents(ctx, tx, append(events, held.TakeEvents()...))
}

// admit takes the user's lock, so that no other request adds to the user's places, and checks what
// does not depend on the seats.
func admit(ctx context.Context, tx *postgres.Tx, req reservation.SeatsRequest) (db.SaleOfRow, error) {
	row, used, err := lockUserAndReadSale(ctx, tx, req)
	if err != nil {
		return row, postgres.OrNotFound(err, event.ErrNotFound)
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

// lockUserAndReadSale sends two statements at once: the second one still begins after the first has
// its lock, and sees what was committed until then.
func lockUserAndReadSale(ctx context.Context, tx *postgres.Tx, req reservation.SeatsRequest) (row db.SaleOfRow, used int64, err error) {
	var b pgx.Batch
	b.Queue(db.LockUser, postgres.User{EventID: req.EventID, UserID: req.UserID}.LockKey())
	b.Queue(db.SaleFor, tx.AsOf, req.UserID, req.EventID).QueryRow(func(r pgx.Row) error {
		return r.Scan(&row.Seating, &row.State, &row.SalesOpenAt, &row.SalesCloseAt, &row.MaxPerUser, &row.Currency, &row.HoldSeconds,
			&row.Now, &used)
	})
	err = tx.SendBatch(ctx, &b).Close()
	return row, used, err
}

// claimSeats gives the seats to the reservation, or says which are taken.
func claimSeats(
	ctx context.Context, q *postgres.Queries, req reservation.SeatsRequest, id uuid.UUID, until time.Time,
) ([]db.ClaimSeatsRow, error) {
	arg := db.ClaimSeatsParams{EventID: req.EventID, SeatIds: req.SeatIDs, ReservationID: id, HeldUntil: until, Now: q.AsOf}
	if !req.SkipLocked {
		return q.ClaimSeats(ctx, arg)
	}
	free, err := q.ClaimFreeSeats(ctx, db.ClaimFreeSeatsParams(arg))
	rows := make([]db.ClaimSeatsRow, len(free))
	for i, r := range free {
		rows[i] = db.ClaimSeatsRow(r)
	}
	return rows, err
}

// addClaimed completes the hold with its seats and their prices, and returns the reservations that
// they were taken over from.
func addClaimed(hold *reservation.Hold, rows []db.ClaimSeatsRow, req reservation.SeatsRequest) ([]uuid.UUID, error) {
	if len(rows) != len(req.SeatIDs) {
		return nil, event.ErrSeatNotFound.With("seatIds", strings.Join(missing(rows, req.SeatIDs), ","))
	}
	var taken []string
	claimed := 0
	previous := make(map[uuid.UUID]struct{})
	for _, r := range rows {
		switch {
		case r.Claimed:
			claimed++
		case r.Taken:
			taken = append(taken, r.SeatID)
		}
		if r.Previous != uuid.Nil {
			previous[r.Previous] = struct{}{}
		}
		hold.Seats = append(hold.Seats, reservation.NewSeat(r.SeatID, r.Price))
		hold.Amount += r.Price
	}
	if claimed < len(rows) {
		if len(taken) == 0 { // none of them, but another seat of a hold that would have been taken over
			taken = req.SeatIDs
		}
		return nil, reservation.Taken(taken)
	}
	reservation.SortSeats(hold.Seats)
	return slices.Collect(maps.Keys(previous)), nil
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

func insertHold(ctx context.Context, q *postgres.Queries, r *reservation.Reservation) error {
	prices := make([]int64, len(r.Seats))
	for i, s := range r.Seats {
		prices[i] = s.Price
	}
	return q.InsertHold(ctx, db.InsertHoldParams{
		ReservationID: r.ID, EventID: r.EventID, SeatIds: r.SeatIDs(), Prices: prices, UserID: r.UserID, SlotID: r.SlotID,
		Quantity: int32(r.Quantity), Amount: r.Amount, Currency: r.Currency, ExpiresAt: r.ExpiresAt, CreatedAt: r.CreatedAt, //nolint:gosec // ≤ 1000
	})
}
