package holds

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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

// HoldSeats implements reservation.Holder.
func (s *Store) HoldSeats(ctx context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	held, err := s.seats.Do(ctx, req.EventID, req)
	if !errors.Is(err, errAlone) {
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
			results[i].Err = errAlone
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
	return s.decide(ctx, eventID, keys, func(ctx context.Context, t *together) error {
		return (&seatsTx{
			together: t, reqs: reqs, wait: wait, busy: make(map[string]bool), seen: make(map[string]db.SeenSeatsRow),
			locked: make(map[string]*lockedSeat), expired: make(map[uuid.UUID][]string),
		}).run(ctx)
	})
}

// seatsTx is the transaction of one batch.
type seatsTx struct {
	*together

	reqs []reservation.SeatsRequest
	// wait: the only request waits for the locks that it needs, unless it skips locked seats.
	wait bool
	// busy are the users that another transaction has locked.
	busy   map[string]bool
	seen   map[string]db.SeenSeatsRow
	locked map[string]*lockedSeat
	// expired are the holds that may be taken over, with their seats.
	expired map[uuid.UUID][]string
	// due are the rows of those that are locked with all of their seats.
	due *reservations.Locked
	// ended are those that were taken over.
	ended []uuid.UUID
}

// lockedSeat is a seat while it is locked: as the database has it, and what is decided.
type lockedSeat struct {
	free   bool
	heldBy uuid.UUID // an expired hold
	moved  bool
	owner  uuid.UUID // of a moved seat; the zero UUID when it becomes free
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
	if err := t.admits(event.Assigned); err != nil {
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
		if t.results[i].Err = t.allot(i); t.results[i].Err == nil {
			held = append(held, i)
		}
	}
	return t.write(ctx, held)
}

// allot gives a request all of its seats, or returns why not. Earlier requests of the batch come
// first.
func (t *seatsTx) allot(i int) error {
	req := t.reqs[i]
	if err := t.admitsUser(req); err != nil {
		return err
	}
	var missing, taken []string
	var over []uuid.UUID
	for _, id := range req.SeatIDs {
		seat := t.locked[id]
		switch {
		case seat == nil && !req.SkipLocked && t.wait: // deleted since it was read
			missing = append(missing, id)
		case seat == nil && !req.SkipLocked:
			return errAlone
		case seat == nil || (!seat.free && t.expired[seat.heldBy] == nil):
			taken = append(taken, id)
		case !seat.free && !slices.Contains(over, seat.heldBy):
			over = append(over, seat.heldBy)
		}
	}
	switch {
	case len(missing) > 0:
		return notFound(missing)
	case len(taken) > 0:
		return reservation.Taken(taken)
	}
	for _, hold := range over {
		if !t.complete(hold) { // it may have been extended, or another transaction has locked a seat of it
			if !t.wait && !req.SkipLocked {
				return errAlone
			}
			return reservation.Taken(req.SeatIDs)
		}
	}
	for _, hold := range over {
		t.end(hold)
	}
	t.give(i)
	return nil
}

// complete reports whether all seats of an expired hold are locked and still its own.
func (t *seatsTx) complete(hold uuid.UUID) bool {
	return !slices.ContainsFunc(t.expired[hold], func(id string) bool { return t.locked[id] == nil || t.locked[id].heldBy != hold })
}

// end makes all seats of an expired hold free.
func (t *seatsTx) end(hold uuid.UUID) {
	t.ended = append(t.ended, hold)
	for _, id := range t.expired[hold] {
		*t.locked[id] = lockedSeat{free: true, moved: true}
	}
}

// give gives a request its seats.
func (t *seatsTx) give(i int) {
	req := t.reqs[i]
	h := reservation.Hold{UserID: req.UserID, SlotID: req.SlotID, Quantity: len(req.SeatIDs), Seats: make([]reservation.Seat, len(req.SeatIDs))}
	for n, id := range req.SeatIDs {
		h.Seats[n] = reservation.NewSeat(id, t.seen[id].Price)
		h.Amount += h.Seats[n].Price
	}
	reservation.SortSeats(h.Seats)
	r := t.hold(i, h)
	for _, id := range req.SeatIDs {
		*t.locked[id] = lockedSeat{moved: true, owner: r.ID}
	}
	t.used[req.UserID] += int64(len(req.SeatIDs))
}

// write writes what was decided.
func (t *seatsTx) write(ctx context.Context, held []int) error {
	if len(held) == 0 {
		return nil
	}
	ended, err := t.due.ExpireTakenOver(ctx, t.Tx, t.ended)
	if err != nil {
		return err
	}
	t.events = append(ended, t.events...)
	l := &later{Tx: t.Tx}
	until := t.sale.Now.UTC().Add(t.store.lifetime(t.sale))
	if err := t.move(l, until); err != nil {
		return err
	}
	if err := t.insert(ctx, l, held, until); err != nil {
		return err
	}
	return t.save(ctx, l, held)
}

// move gives the locked seats to those who get them.
func (t *seatsTx) move(l *later, until time.Time) error {
	var seats []string
	owners := make(map[string]*uuid.UUID) // nil: free
	for id, seat := range t.locked {
		if !seat.moved {
			continue
		}
		seats, owners[id] = append(seats, id), nil
		if seat.owner != uuid.Nil {
			owners[id] = &seat.owner
		}
	}
	encoded, err := json.Marshal(owners)
	if err != nil {
		return err
	}
	l.expect(len(seats), "seats", db.MoveSeats, encoded, until, t.eventID, seats)
	return nil
}

func (t *seatsTx) insert(ctx context.Context, l *later, held []int, until time.Time) error {
	c := t.rows(held)
	arg := db.InsertHoldsParams{
		EventID: t.eventID, Currency: t.sale.Currency, ExpiresAt: until, CreatedAt: t.sale.Now.UTC(), ReservationIds: c.ids,
		UserIds: c.users, SlotIds: c.slots, Quantities: c.quantities, Amounts: c.amounts,
	}
	for _, i := range held {
		r := t.results[i].Value
		for _, seat := range r.Seats {
			arg.Owners, arg.SeatIds, arg.Prices = append(arg.Owners, r.ID), append(arg.SeatIds, seat.ID), append(arg.Prices, seat.Price)
		}
	}
	return db.New(l).InsertHolds(ctx, arg)
}
