package holds

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/limit"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/reservation"
)

func (s *Store) HoldSeats(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	held, err := s.seats.Do(ctx, req.EventID, req)
	if !errors.Is(err, reservation.ErrUndecided) {
		return held, err
	}
	return limit.Do(ctx, s.waitsLimiter, func() (*reservation.Reservation, error) { return s.holdWaiting(ctx, req) })
}

// holdWaiting answers one request in a transaction that waits for other transactions' locks.
func (s *Store) holdWaiting(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	return runLimited(ctx, s, func(ctx context.Context) (*reservation.Reservation, error) {
		results, err := s.decideSeats(ctx, req.EventID, []reservation.SeatsRequest{req}, true)
		if err != nil {
			return nil, err
		}
		return results[0].Value, results[0].Err
	})
}

// holdSeats answers requests for seats of one event in one transaction, which waits for no locks.
// After an internal error, which one request may have caused, all requests get ErrUndecided, and
// HoldSeats answers each in a transaction of its own.
func (s *Store) holdSeats(ctx context.Context, eventID string, reqs []reservation.SeatsRequest) ([]result, error) {
	results, err := limit.Do(ctx, s.limiter, func() ([]result, error) { return s.decideSeats(ctx, eventID, reqs, false) })
	if err != nil && errs.From(err).Kind == errs.Internal && ctx.Err() == nil {
		results = make([]result, len(reqs))
		for i := range results {
			results[i].Err = reservation.ErrUndecided
		}
		return results, nil
	}
	return results, err
}

func (s *Store) decideSeats(ctx context.Context, eventID string, reqs []reservation.SeatsRequest, wait bool) ([]result, error) {
	keys := make([]*idempotency.Key, len(reqs))
	for i, r := range reqs {
		keys[i] = r.IdempotencyKey
	}
	return s.runBatch(ctx, eventID, keys, func(ctx context.Context, t *holdBatch) error {
		return (&seatsTx{holdBatch: t, reqs: reqs, sale: reservation.NewSeatSale(wait)}).holdAll(ctx)
	})
}

// seatsTx is the transaction that answers a batch of requests for named seats.
type seatsTx struct {
	*holdBatch

	reqs []reservation.SeatsRequest
	sale reservation.SeatSale
	due  *purchases.LockedReservations // expired holds whose rows and seats are all locked
}

func (t *seatsTx) holdAll(ctx context.Context) error {
	pending, err := t.replayRepeated(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	if err := t.lockUsersAndRead(ctx, pending); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			t.refuseAll(pending, event.ErrNotFound)
			return nil
		}
		return err
	}
	if err := t.checkSeries(); err != nil {
		return err
	}
	t.sale.LockedSale = t.lockedSale()
	if err := t.sale.CheckSeating(event.Assigned); err != nil {
		t.refuseAll(pending, err)
		return nil
	}
	if pending, err = t.checkRequests(ctx, pending); err != nil {
		return err
	}
	if pending, err = t.findExpired(ctx, pending); err != nil {
		return err
	}
	if err := t.lockSeatsAndHolds(ctx, pending); err != nil {
		return err
	}
	held := t.decideAll(pending, func(i int) (*reservation.Reservation, error) { return t.sale.Allot(t.reqs[i]) })
	return t.writeHolds(ctx, held)
}

func (t *seatsTx) writeHolds(ctx context.Context, held []int) error {
	if len(held) == 0 {
		return nil
	}
	ended, err := t.due.ExpireTakenOver(ctx, t.Tx, t.sale.TakenOver)
	if err != nil {
		return err
	}
	t.events = append(ended, t.events...)
	p := &pipeline{Tx: t.Tx}
	until := t.sale.Now.Add(t.sale.HoldFor)
	if err := t.queueSeatOwners(p, until); err != nil {
		return err
	}
	if err := t.insertReservations(ctx, p, held, until); err != nil {
		return err
	}
	return t.saveAnswersAndEvents(ctx, p, held)
}

// queueSeatOwners queues the statement that writes the new owners of locked seats.
func (t *seatsTx) queueSeatOwners(p *pipeline, heldUntil time.Time) error {
	var seats []string
	owners := make(map[string]*uuid.UUID) // nil if the seat becomes free
	for id, seat := range t.sale.Locked {
		if !seat.OwnerChanged {
			continue
		}
		seats, owners[id] = append(seats, id), nil
		if seat.Owner != uuid.Nil {
			owners[id] = &seat.Owner
		}
	}
	encoded, err := json.Marshal(owners)
	if err != nil {
		return err
	}
	p.expectRows(len(seats), "seats", db.MoveSeats, encoded, heldUntil, t.eventID, seats)
	return nil
}

func (t *seatsTx) insertReservations(ctx context.Context, p *pipeline, held []int, until time.Time) error {
	c := t.columnsOf(held)
	arg := db.InsertHoldsParams{
		EventID: t.eventID, Currency: t.sale.Currency, ExpiresAt: until, CreatedAt: t.sale.Now, ReservationIds: c.ids,
		UserIds: c.users, Emails: c.emails, Languages: c.languages, SlotIds: c.slots, Quantities: c.quantities, Amounts: c.amounts, Fees: c.fees,
	}
	for _, i := range held {
		r := t.results[i].Value
		for n, seat := range r.Seats {
			arg.Owners, arg.Ns = append(arg.Owners, r.ID), append(arg.Ns, int32(n+1)) //nolint:gosec // ≤ 1000
			arg.SeatIds, arg.Prices = append(arg.SeatIds, seat.ID), append(arg.Prices, seat.Price)
			arg.PlaceFees = append(arg.PlaceFees, seat.Fee)
		}
	}
	return db.New(p).InsertHolds(ctx, arg)
}
