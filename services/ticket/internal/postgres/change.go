package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

// change is a reservation whose row and seats are locked: as it was read, and as the domain leaves it.
type change struct {
	was reservation.Reservation
	now *reservation.Reservation
}

func (c *change) changed() bool { return c.now.Version != c.was.Version }

// changes are the locked reservations of one transaction.
type changes struct {
	list []*change
	at   time.Time
}

// find returns a locked reservation, nil when it does not exist.
func (c *changes) find(id uuid.UUID) *reservation.Reservation {
	for _, x := range c.list {
		if x.was.ID == id {
			return x.now
		}
	}
	return nil
}

// lock takes the locks of the reservations in the order that holds everywhere, and reads them. With skip, reservations of which somebody
// else has a seat locked are left out, and so are the users' locks: it is for those who only end reservations.
func lock(ctx context.Context, q *queries, ids []uuid.UUID, skip bool) (*changes, error) {
	lockSeats := q.LockFreeSeatsOf
	if !skip {
		lockSeats = q.LockSeatsOf
		if err := lockUsersOf(ctx, q, ids); err != nil {
			return nil, err
		}
	}
	locked, err := lockSeats(ctx, ids)
	if err != nil {
		return nil, err
	}
	if err := q.LockSectionsOf(ctx, ids); err != nil {
		return nil, err
	}
	seatRows, err := q.SeatsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	seats := seatsByReservation(seatRows)
	if skip {
		ids = complete(ids, locked, seats)
	}
	return read(ctx, q, ids, seats)
}

// lockUsersOf takes the locks of the reservations' users: a payment may bring what they hold over its end, which whoever counts their
// places must not take for free at the same time.
func lockUsersOf(ctx context.Context, q *queries, ids []uuid.UUID) error {
	users, err := q.UsersOf(ctx, ids)
	if err != nil || len(users) == 0 {
		return err
	}
	locks := make([]int64, len(users))
	for i, u := range users {
		locks[i] = userLock(u.EventID, u.UserID)
	}
	return q.LockUsers(ctx, sortedUnique(locks))
}

// complete keeps the reservations all of whose seats were locked.
func complete(ids, locked []uuid.UUID, seats map[uuid.UUID][]reservation.Seat) []uuid.UUID {
	count := make(map[uuid.UUID]int, len(ids))
	for _, id := range locked {
		count[id]++
	}
	var all []uuid.UUID
	for _, id := range ids {
		if count[id] == len(seats[id]) {
			all = append(all, id)
		}
	}
	return all
}

// read locks and reads the reservations' rows; their seats or sections must be locked already.
func read(ctx context.Context, q *queries, ids []uuid.UUID, seats map[uuid.UUID][]reservation.Seat) (*changes, error) {
	rows, err := q.LockReservations(ctx, db.LockReservationsParams{ReservationIds: ids, Now: q.present()})
	if err != nil {
		return nil, err
	}
	set := &changes{list: make([]*change, len(rows))}
	for i, row := range rows {
		r := toReservation(row.Reservation, seats[row.Reservation.ReservationID])
		set.list[i] = &change{was: *r, now: r}
		set.at = row.Now.UTC()
	}
	return set, nil
}

// save writes what the domain changed, every status by a write that names the one it expects, and returns what happened.
func (c *changes) save(ctx context.Context, q *queries) ([]reservation.Event, error) {
	var changed []*change
	for _, x := range c.list {
		if x.changed() {
			changed = append(changed, x)
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	if err := updateReservations(ctx, q, changed); err != nil {
		return nil, err
	}
	if err := updateSeats(ctx, q, changed); err != nil {
		return nil, err
	}
	if err := endSeats(ctx, q, changed); err != nil {
		return nil, err
	}
	if err := moveCounters(ctx, q, changed); err != nil {
		return nil, err
	}
	if err := changeTickets(ctx, q, changed); err != nil {
		return nil, err
	}
	return takeEvents(changed), nil
}

func takeEvents(changed []*change) []reservation.Event {
	var events []reservation.Event
	for _, c := range changed {
		events = append(events, c.now.TakeEvents()...)
	}
	return events
}

func updateReservations(ctx context.Context, q *queries, changed []*change) error {
	var arg db.UpdateReservationsParams
	for _, c := range changed {
		arg.ReservationIds = append(arg.ReservationIds, c.was.ID)
		arg.Was = append(arg.Was, string(c.was.Status))
		arg.WasVersions = append(arg.WasVersions, c.was.Version)
		arg.Statuses = append(arg.Statuses, string(c.now.Status))
		arg.Reasons = append(arg.Reasons, c.now.Reason)
		arg.ExpiresAt = append(arg.ExpiresAt, c.now.ExpiresAt)
		arg.PaymentIds = append(arg.PaymentIds, c.now.PaymentID)
		arg.Versions = append(arg.Versions, c.now.Version)
	}
	n, err := q.UpdateReservations(ctx, arg)
	return exactly(n, len(changed), "reservations", err)
}

// seatStatus is the status of the seats of a reservation.
func seatStatus(s reservation.Status) string {
	switch {
	case s == reservation.Confirmed:
		return "SOLD"
	case s.Unpaid():
		return "HELD"
	default:
		return "FREE"
	}
}

// updateSeats follows reservations whose seats change with them.
func updateSeats(ctx context.Context, q *queries, changed []*change) error {
	var arg db.UpdateSeatsParams
	seats := 0
	for _, c := range changed {
		was, now := seatStatus(c.was.Status), seatStatus(c.now.Status)
		if was == "FREE" || (was == now && c.was.ExpiresAt.Equal(c.now.ExpiresAt)) || len(c.now.Seats) == 0 {
			continue
		}
		arg.ReservationIds = append(arg.ReservationIds, c.was.ID)
		arg.Was = append(arg.Was, was)
		arg.Statuses = append(arg.Statuses, now)
		arg.HeldUntil = append(arg.HeldUntil, c.now.ExpiresAt)
		seats += len(c.now.Seats)
	}
	if seats == 0 {
		return nil
	}
	n, err := q.UpdateSeats(ctx, arg)
	return exactly(n, seats, "seats", err)
}

// endSeats takes the seats from reservations that are no longer live, for the unique index.
func endSeats(ctx context.Context, q *queries, changed []*change) error {
	var ended []uuid.UUID
	seats := 0
	for _, c := range changed {
		if c.was.Status.Live() && !c.now.Status.Live() && len(c.now.Seats) > 0 {
			ended = append(ended, c.was.ID)
			seats += len(c.now.Seats)
		}
	}
	if seats == 0 {
		return nil
	}
	n, err := q.EndSeats(ctx, ended)
	return exactly(n, seats, "seats of reservations", err)
}

// moveCounters does for general admission what updateSeats does for seats.
func moveCounters(ctx context.Context, q *queries, changed []*change) error {
	type section struct{ event, name string }
	type delta struct{ held, sold int64 }
	deltas := make(map[section]delta)
	count := func(d *delta, s reservation.Status, n int) {
		switch seatStatus(s) {
		case "HELD":
			d.held += int64(n)
		case "SOLD":
			d.sold += int64(n)
		}
	}
	for _, c := range changed {
		if c.was.Section == "" {
			continue
		}
		key := section{c.was.EventID, c.was.Section}
		d := deltas[key]
		count(&d, c.was.Status, -c.was.Quantity)
		count(&d, c.now.Status, c.now.Quantity)
		deltas[key] = d
	}
	var arg db.MoveCountersParams
	for k, d := range deltas {
		if d == (delta{}) {
			continue
		}
		arg.EventIds, arg.Sections = append(arg.EventIds, k.event), append(arg.Sections, k.name)
		arg.Held, arg.Sold = append(arg.Held, d.held), append(arg.Sold, d.sold)
	}
	if len(arg.Sections) == 0 {
		return nil
	}
	n, err := q.MoveCounters(ctx, arg)
	return exactly(n, len(arg.Sections), "sections", err)
}

// errContradiction is what a bug, or somebody who wrote by hand, has left in the database.
var errContradiction = errors.New("the database contradicts itself")

// exactly turns a write that changed fewer rows than are locked into an error: the transaction must not be committed then.
func exactly(n int64, want int, what string, err error) error {
	if err != nil {
		return err
	}
	if n != int64(want) {
		return fmt.Errorf("%d %s changed, not %d: %w", n, what, want, errContradiction)
	}
	return nil
}

var _ reservation.Store = (*Store)(nil)

// Change implements reservation.Store.
func (s *Store) Change(
	ctx context.Context, id uuid.UUID, fn func(*reservation.Reservation, time.Time) error,
) (*reservation.Reservation, time.Time, error) {
	var set *changes
	err := postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		q := s.queries(tx)
		if set, err = lock(ctx, q, []uuid.UUID{id}, false); err != nil {
			return err
		}
		if len(set.list) == 0 {
			return reservation.ErrNotFound
		}
		if err := fn(set.list[0].now, set.at); err != nil {
			return err
		}
		events, err := set.save(ctx, q)
		if err != nil {
			return err
		}
		return s.insertEvents(ctx, tx, events)
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	s.published()
	return set.list[0].now, set.at, nil
}
