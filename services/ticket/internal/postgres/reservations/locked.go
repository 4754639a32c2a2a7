package reservations

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/tickets"
	"urr.guru/services/ticket/internal/reservation"
)

// Locked are reservations whose rows, and seats or sections, one transaction has locked.
type Locked struct {
	changes []*change
	// Now is the database's time at which all were locked; zero without any reservation.
	Now time.Time
}

// change is a locked reservation as it was read, and as the domain has changed it.
type change struct {
	before  reservation.Reservation
	current *reservation.Reservation
}

func (c *change) changed() bool { return c.current.Version != c.before.Version }

// Find returns a locked reservation, nil when it is not locked.
func (l *Locked) Find(id uuid.UUID) *reservation.Reservation {
	for _, c := range l.changes {
		if c.before.ID == id {
			return c.current
		}
	}
	return nil
}

// EventIDs returns the events of the reservations, each once.
func (l *Locked) EventIDs() []string {
	ids := make([]string, len(l.changes))
	for i, c := range l.changes {
		ids[i] = c.before.EventID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Expire ends the due reservations and returns them.
func (l *Locked) Expire() []*reservation.Reservation {
	var expired []*reservation.Reservation
	for _, c := range l.changes {
		if c.current.Expire(l.Now) {
			expired = append(expired, c.current)
		}
	}
	return expired
}

// CancelWithEvent ends the unpaid reservations, whose event has ended, and returns their number.
func (l *Locked) CancelWithEvent() (ended int) {
	for _, c := range l.changes {
		if c.current.CancelWithEvent(l.Now); c.changed() {
			ended++
		}
	}
	return ended
}

// Lock locks and reads reservations, after the locks of the payments that change them, of their
// users and of their seats or sections.
func Lock(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID, payments ...uuid.UUID) (*Locked, error) {
	if err := lockUsersOf(ctx, tx, ids, payments); err != nil {
		return nil, err
	}
	if _, err := tx.LockSeatsOf(ctx, ids); err != nil {
		return nil, err
	}
	seats, err := lockSections(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	return lockRows(ctx, tx, ids, seats)
}

// LockAvailable is Lock for transactions that only end reservations. It does not lock users, and
// leaves out reservations of which another transaction has locked a seat.
func LockAvailable(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*Locked, error) {
	locked, err := tx.LockFreeSeatsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	seats, err := lockSections(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	return lockRows(ctx, tx, withAllSeats(ids, locked, seats), seats)
}

// lockSections locks the sections of reservations with general admission, and reads the seats of
// the other ones.
func lockSections(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (map[uuid.UUID][]reservation.Seat, error) {
	if err := tx.LockSectionsOf(ctx, ids); err != nil {
		return nil, err
	}
	return seatsOf(ctx, tx.Queries, ids)
}

// LockGeneral locks and reads reservations with general admission, whose sections must be locked.
func LockGeneral(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*Locked, error) {
	return lockRows(ctx, tx, ids, nil)
}

// lockUsersOf locks payments, and then the users of reservations: while a payment extends a hold
// beyond its end, no other transaction may count the user's places without those of the hold.
func lockUsersOf(ctx context.Context, tx *postgres.Tx, ids, payments []uuid.UUID) error {
	rows, err := tx.UsersOf(ctx, ids)
	if err != nil {
		return err
	}
	users := make([]postgres.User, len(rows))
	for i, r := range rows {
		users[i] = postgres.User{EventID: r.EventID, SeriesID: r.SeriesID, UserID: r.UserID}
	}
	return tx.LockUsers(ctx, append(postgres.PaymentLockKeys(payments), postgres.LockKeys(users)...))
}

// withAllSeats returns those ids all of whose seats are locked. locked has an id once per locked
// seat.
func withAllSeats(ids, locked []uuid.UUID, seats map[uuid.UUID][]reservation.Seat) []uuid.UUID {
	count := make(map[uuid.UUID]int, len(ids))
	for _, id := range locked {
		count[id]++
	}
	var complete []uuid.UUID
	for _, id := range ids {
		if count[id] == len(seats[id]) {
			complete = append(complete, id)
		}
	}
	return complete
}

// lockRows locks and reads the rows of reservations, whose seats or sections must be locked.
func lockRows(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID, seats map[uuid.UUID][]reservation.Seat) (*Locked, error) {
	rows, err := tx.LockReservations(ctx, db.LockReservationsParams{ReservationIds: ids, Now: tx.ClockTime()})
	if err != nil {
		return nil, err
	}
	l := &Locked{changes: make([]*change, len(rows))}
	for i, row := range rows {
		r := toReservation(row.Reservation, seats[row.Reservation.ReservationID])
		l.changes[i] = &change{before: *r, current: r}
		l.Now = row.Now.UTC()
	}
	return l, nil
}

// Save writes the changed reservations and returns their events. Every write names the status that
// it expects to change.
func (l *Locked) Save(ctx context.Context, tx *postgres.Tx) ([]reservation.Event, error) {
	var changed []*change
	for _, c := range l.changes {
		if c.changed() {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	for _, write := range []func(context.Context, *postgres.Queries, []*change) error{
		updateReservations, updateSeats, endSeats, giveBack, moveCounters, issueTickets, moveSold,
	} {
		if err := write(ctx, tx.Queries, changed); err != nil {
			return nil, err
		}
	}
	return takeEvents(changed), nil
}

// LockDue locks reservations, all of whose seats must be locked, and keeps the due ones.
func LockDue(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*Locked, error) {
	if len(ids) == 0 {
		return &Locked{}, nil
	}
	seats, err := seatsOf(ctx, tx.Queries, ids)
	if err != nil {
		return nil, err
	}
	l, err := lockRows(ctx, tx, ids, seats)
	if err != nil {
		return nil, err
	}
	l.changes = slices.DeleteFunc(l.changes, func(c *change) bool { return !c.current.Due(l.Now) })
	return l, nil
}

// ExpireTakenOver ends locked reservations and returns their events. The caller must move or free
// their seats.
func (l *Locked) ExpireTakenOver(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) ([]reservation.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var changed []*change
	for _, c := range l.changes {
		if slices.Contains(ids, c.before.ID) && c.current.Expire(l.Now) {
			changed = append(changed, c)
		}
	}
	if err := postgres.ExpectRows(int64(len(changed)), len(ids), "reservations", nil); err != nil {
		return nil, err
	}
	if err := updateReservations(ctx, tx.Queries, changed); err != nil {
		return nil, err
	}
	return takeEvents(changed), endSeats(ctx, tx.Queries, changed)
}

func takeEvents(changed []*change) []reservation.Event {
	var events []reservation.Event
	for _, c := range changed {
		events = append(events, c.current.TakeEvents()...)
	}
	return events
}

// issueTickets issues the tickets of confirmed reservations.
func issueTickets(ctx context.Context, q *postgres.Queries, changed []*change) error {
	var confirmed []*reservation.Reservation
	for _, c := range changed {
		if c.before.Status != reservation.Confirmed && c.current.Status == reservation.Confirmed {
			confirmed = append(confirmed, c.current)
		}
	}
	return tickets.Issue(ctx, q, confirmed)
}
