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
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

func (s *Store) HoldSeats(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	held, err := s.seats.Do(ctx, req.EventID, req)
	if !errors.Is(err, reservation.ErrUndecided) {
		return held, err
	}
	err = s.alone.Do(ctx, func() error {
		held, err = s.holdAlone(ctx, req)
		return err
	})
	return held, err
}

// holdAlone decides on a request in a transaction of its own, in which it waits for locks.
func (s *Store) holdAlone(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	return limited(ctx, s, func(ctx context.Context) (*reservation.Reservation, error) {
		results, err := s.decideSeats(ctx, req.EventID, []reservation.SeatsRequest{req}, true)
		if err != nil {
			return nil, err
		}
		return results[0].Value, results[0].Err
	})
}

// holdSeats decides on requests of one event in one transaction, which waits for no lock: whoever
// holds one for long delays only those that want the same. A failure that one request may have
// caused is not the others'.
func (s *Store) holdSeats(ctx context.Context, eventID string, reqs []reservation.SeatsRequest) (results []result, err error) {
	err = s.limiter.Do(ctx, func() error {
		results, err = s.decideSeats(ctx, eventID, reqs, false)
		return err
	})
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
	return s.decide(ctx, eventID, keys, func(ctx context.Context, t *holdBatch) error {
		return (&seatsTx{holdBatch: t, reqs: reqs, sale: reservation.NewSeatSale(wait)}).run(ctx)
	})
}

// seatsTx is the transaction of one batch.
type seatsTx struct {
	*holdBatch

	reqs []reservation.SeatsRequest
	sale reservation.SeatSale
	// due are the rows of those expired holds that are locked with all of their seats.
	due *reservations.Locked
}

func (t *seatsTx) run(ctx context.Context) error {
	pending, err := t.replayKnown(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	if err := t.read(ctx, pending); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			t.refuse(pending, event.ErrNotFound)
			return nil
		}
		return err
	}
	t.sale.LockedSale = t.holdBatch.sale()
	if err := t.sale.CheckSeating(event.Assigned); err != nil {
		t.refuse(pending, err)
		return nil
	}
	if pending, err = t.possible(ctx, pending); err != nil {
		return err
	}
	if err := t.lock(ctx, pending); err != nil {
		return err
	}
	var held []int
	for _, i := range pending {
		r, err := t.sale.Allot(t.reqs[i])
		if err != nil {
			t.results[i].Err = err
			continue
		}
		t.grant(i, r)
		held = append(held, i)
	}
	return t.write(ctx, held)
}

// write writes what was decided.
func (t *seatsTx) write(ctx context.Context, held []int) error {
	if len(held) == 0 {
		return nil
	}
	ended, err := t.due.ExpireTakenOver(ctx, t.Tx, t.sale.Ended)
	if err != nil {
		return err
	}
	t.events = append(ended, t.events...)
	p := &pipeline{Tx: t.Tx}
	until := t.sale.Now.Add(t.sale.HoldFor)
	if err := t.move(p, until); err != nil {
		return err
	}
	if err := t.insert(ctx, p, held, until); err != nil {
		return err
	}
	return t.save(ctx, p, held)
}

// move gives the locked seats to those who get them.
func (t *seatsTx) move(p *pipeline, until time.Time) error {
	var seats []string
	owners := make(map[string]*uuid.UUID) // nil: free
	for id, seat := range t.sale.Locked {
		if !seat.Moved {
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
	p.expect(len(seats), "seats", db.MoveSeats, encoded, until, t.eventID, seats)
	return nil
}

func (t *seatsTx) insert(ctx context.Context, p *pipeline, held []int, until time.Time) error {
	c := t.rows(held)
	arg := db.InsertHoldsParams{
		EventID: t.eventID, Currency: t.sale.Currency, ExpiresAt: until, CreatedAt: t.sale.Now, ReservationIds: c.ids,
		UserIds: c.users, SlotIds: c.slots, Quantities: c.quantities, Amounts: c.amounts,
	}
	for _, i := range held {
		r := t.results[i].Value
		for _, seat := range r.Seats {
			arg.Owners, arg.SeatIds, arg.Prices = append(arg.Owners, r.ID), append(arg.SeatIds, seat.ID), append(arg.Prices, seat.Price)
		}
	}
	return db.New(p).InsertHolds(ctx, arg)
}
