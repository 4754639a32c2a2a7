package holds

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

// read takes the users' locks, and reads what the decision needs. The statements are sent at once:
// each begins after the one before has ended, so that they see what was committed until the users
// were locked.
func (t *seatsTx) read(ctx context.Context, pending []int) error {
	users := distinct(pending, func(i int) string { return t.reqs[i].UserID })
	byLock := make(map[int64]string, len(users))
	for _, u := range users {
		byLock[postgres.User{EventID: t.eventID, UserID: u}.LockKey()] = u
	}
	var b pgx.Batch
	if t.sale.Waits {
		b.Queue(db.LockUsers, t.lockKeys(users))
	} else {
		b.Queue(db.TryLockUsers, t.lockKeys(users)).Query(func(rows pgx.Rows) error {
			var r db.TryLockUsersRow
			_, err := pgx.ForEachRow(rows, []any{&r.Key, &r.Locked}, func() error {
				t.sale.Busy[byLock[r.Key]] = !r.Locked
				return nil
			})
			return err
		})
	}
	t.queueSale(&b)
	t.queueUsed(&b, users)
	seats := t.seatsOf(pending, func(n int) bool { return n <= fewSeats })
	if len(seats) > 0 {
		b.Queue(db.SeenSeats, t.AsOf, t.eventID, seats).Query(func(rows pgx.Rows) error {
			all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.SeenSeatsRow])
			t.saw(all)
			return err
		})
	}
	return t.SendBatch(ctx, &b).Close()
}

// seatsOf lists the seats of the requests for such a number of them.
func (t *seatsTx) seatsOf(pending []int, include func(n int) bool) (seats []string) {
	for _, i := range pending {
		if ids := t.reqs[i].SeatIDs; include(len(ids)) {
			seats = append(seats, ids...)
		}
	}
	return seats
}

func (t *seatsTx) saw(rows []db.SeenSeatsRow) {
	for _, r := range rows {
		t.sale.Seen[r.SeatID] = reservation.SeenSeat{Price: r.Price, Takeable: r.Takeable, HeldBy: r.HeldBy}
	}
}

// possible returns those requests that may get their seats, as far as is known before seats are
// locked. Of a request for many seats none is read before the limit admits it.
func (t *seatsTx) possible(ctx context.Context, pending []int) ([]int, error) {
	pending = t.accepted(pending, t.sale.Refusal)
	if many := t.seatsOf(pending, func(n int) bool { return n > fewSeats }); len(many) > 0 {
		rows, err := t.SeenSeats(ctx, db.SeenSeatsParams{Now: t.AsOf, EventID: t.eventID, SeatIds: many})
		if err != nil {
			return nil, err
		}
		t.saw(rows)
	}
	return t.accepted(pending, t.sale.SeatsRefusal), nil
}

// accepted refuses requests, and returns the others.
func (t *seatsTx) accepted(pending []int, refusal func(reservation.SeatsRequest) error) (others []int) {
	for _, i := range pending {
		if t.results[i].Err = refusal(t.reqs[i]); t.results[i].Err == nil {
			others = append(others, i)
		}
	}
	return others
}

// lock locks the seats of requests. Of a hold that would be taken over all seats are locked, for its
// others become free.
func (t *seatsTx) lock(ctx context.Context, pending []int) error {
	if len(pending) == 0 {
		return nil
	}
	var seats []string
	var expired []uuid.UUID
	for _, i := range pending {
		for _, id := range t.reqs[i].SeatIDs {
			seats = append(seats, id)
			if hold := t.sale.Seen[id].HeldBy; hold != uuid.Nil && t.sale.Expired[hold] == nil {
				t.sale.Expired[hold] = []string{}
				expired = append(expired, hold)
			}
		}
	}
	if len(expired) > 0 {
		rows, err := t.SeatsOf(ctx, expired)
		if err != nil {
			return err
		}
		for _, r := range rows {
			t.sale.Expired[r.ReservationID] = append(t.sale.Expired[r.ReservationID], r.SeatID)
			seats = append(seats, r.SeatID)
		}
	}
	rows, err := t.lockSeats(ctx, seats, t.sale.Waits && !t.reqs[pending[0]].SkipLocked)
	if err != nil {
		return err
	}
	for _, r := range rows {
		t.sale.Locked[r.SeatID] = &reservation.LockedSeat{Free: r.Free, HeldBy: r.HeldBy}
	}
	return t.lockDue(ctx, expired)
}

// lockDue locks the rows of expired holds whose seats are locked; nobody else can have them locked
// then. A hold whose row says that its time is not over keeps its seats.
func (t *seatsTx) lockDue(ctx context.Context, expired []uuid.UUID) (err error) {
	complete := slices.DeleteFunc(expired, func(id uuid.UUID) bool { return !t.sale.Complete(id) })
	if t.due, err = reservations.LockDue(ctx, t.Tx, complete); err != nil {
		return err
	}
	for _, id := range complete {
		if t.due.Find(id) == nil {
			delete(t.sale.Expired, id)
		}
	}
	return nil
}

func (t *seatsTx) lockSeats(ctx context.Context, seats []string, wait bool) ([]db.LockSeatsRow, error) {
	slices.Sort(seats)
	arg := db.LockSeatsParams{EventID: t.eventID, SeatIds: slices.Compact(seats), Now: t.AsOf}
	if wait {
		return t.LockSeats(ctx, arg)
	}
	free, err := t.LockFreeSeats(ctx, db.LockFreeSeatsParams(arg))
	rows := make([]db.LockSeatsRow, len(free))
	for i, r := range free {
		rows[i] = db.LockSeatsRow(r)
	}
	return rows, err
}
