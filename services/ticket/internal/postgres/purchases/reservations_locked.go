package purchases

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

// LockedReservations has reservations that one transaction has locked, with their seats or sections.
type LockedReservations struct {
	changes []*reservationChange
	// Now is the database's time when all locks had been taken; zero if there are no reservations.
	Now time.Time
	// prompt: places are free at once, whichever section they are in (see delayEnded).
	prompt bool
}

// reservationChange is a locked reservation as it was read (before), and as it will be written
// (current).
type reservationChange struct {
	before  reservation.Reservation
	current *reservation.Reservation
	// delayed: it has ended unpaid, but its places are free only after a while (delayEnded).
	delayed bool
}

func (c *reservationChange) changed() bool { return c.current.Version != c.before.Version }

// FindReservation returns the reservation with this id, or nil if it is not locked.
func (l *LockedReservations) Find(id uuid.UUID) *reservation.Reservation {
	for _, c := range l.changes {
		if c.before.ID == id {
			return c.current
		}
	}
	return nil
}

// EventIDs returns the ids of the reservations' events, each once.
func (l *LockedReservations) EventIDs() []string {
	ids := make([]string, len(l.changes))
	for i, c := range l.changes {
		ids[i] = c.before.EventID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// ExpireReservations expires and returns the locked reservations whose time is over.
func (l *LockedReservations) Expire() []*reservation.Reservation {
	var expired []*reservation.Reservation
	for _, c := range l.changes {
		if c.current.Expire(l.Now) {
			expired = append(expired, c.current)
		}
	}
	return expired
}

// Freed returns the expired reservations whose places are free now that they are saved.
func (l *LockedReservations) Freed(expired []*reservation.Reservation) []*reservation.Reservation {
	return slices.DeleteFunc(expired, func(r *reservation.Reservation) bool {
		return slices.ContainsFunc(l.changes, func(c *reservationChange) bool { return c.current == r && c.delayed })
	})
}

// CancelWithEvent cancels the unpaid reservations of an ended event, and returns their number.
func (l *LockedReservations) CancelWithEvent() (ended int) {
	for _, c := range l.changes {
		if c.current.CancelWithEvent(l.Now); c.changed() {
			ended++
		}
	}
	return ended
}

// LockReservations locks and reads reservations. Before, it locks their users, their seats or sections, and the
// given payments, which change them.
func LockReservations(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID, payments ...uuid.UUID) (*LockedReservations, error) {
	if err := lockUsersOf(ctx, tx, ids, payments); err != nil {
		return nil, err
	}
	if _, err := postgres.LockSeatsOf.Take(ctx, tx, ids); err != nil {
		return nil, err
	}
	seats, err := lockSections(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	return lockReservationRows(ctx, tx, ids, seats)
}

// LockAvailableReservations locks reservations for a transaction that only ends unpaid ones. It does not lock
// users. It leaves out reservations of which another transaction has locked a seat.
func LockAvailableReservations(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*LockedReservations, error) {
	locked, err := tx.LockFreeSeatsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	seats, err := lockSections(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	return lockReservationRows(ctx, tx, withAllSeats(ids, locked, seats), seats)
}

// lockSections locks the sections of reservations without seats, and reads the others' seats.
func lockSections(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (map[uuid.UUID][]reservation.Seat, error) {
	if _, err := postgres.LockSectionsOf.Take(ctx, tx, ids); err != nil {
		return nil, err
	}
	return seatsOf(ctx, tx.Queries, ids)
}

// LockGeneralReservations locks and reads reservations without seats. Their sections must be locked before.
func LockGeneralReservations(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*LockedReservations, error) {
	return lockReservationRows(ctx, tx, ids, nil)
}

// lockUsersOf locks payments, and then the users of reservations. So while a payment extends an
// expired hold, no other transaction can count the user's places without those of this hold.
func lockUsersOf(ctx context.Context, tx *postgres.Tx, ids, payments []uuid.UUID) error {
	rows, err := tx.UsersOf(ctx, ids)
	if err != nil {
		return err
	}
	users := make([]postgres.User, len(rows))
	for i, r := range rows {
		users[i] = postgres.User{EventID: r.EventID, SeriesID: r.SeriesID, UserID: r.UserID}
	}
	return tx.LockPaymentsAndUsers(ctx, payments, users)
}

// withAllSeats returns the ids of the reservations of which every seat is locked. locked contains a
// reservation's id once per locked seat.
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

// lockReservationRows locks and reads the rows of reservations. Their seats or sections must be locked before.
func lockReservationRows(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID, seats map[uuid.UUID][]reservation.Seat) (*LockedReservations, error) {
	rows, err := postgres.LockReservations.Take(ctx, tx, db.LockReservationsParams{ReservationIds: ids, Now: tx.ClockTime()})
	if err != nil {
		return nil, err
	}
	l := &LockedReservations{changes: make([]*reservationChange, len(rows))}
	for i, row := range rows {
		r := toReservation(row.Reservation, seats[row.Reservation.ReservationID])
		l.changes[i] = &reservationChange{before: *r, current: r}
		l.Now = row.Now.UTC()
	}
	return l, nil
}

// Save writes the changed reservations and returns the Kafka events about them. Every statement
// requires the status that a row had when it was read. Save fails if a row has another one.
func (l *LockedReservations) Save(ctx context.Context, tx *postgres.Tx) ([]reservation.Event, error) {
	var changed []*reservationChange
	for _, c := range l.changes {
		if c.changed() {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	if !l.prompt {
		if err := delayEnded(ctx, tx.Queries, changed); err != nil {
			return nil, err
		}
	}
	if err := insertDelayed(ctx, tx.Queries, changed, l.Now); err != nil {
		return nil, err
	}
	for _, write := range []func(context.Context, *postgres.Queries, []*reservationChange) error{
		updateReservations, updateSeats, endSeats, endGivenBackPlaces, updateGeneralCounters, issueTickets,
	} {
		if err := write(ctx, tx.Queries, changed); err != nil {
			return nil, err
		}
	}
	if err := updateSoldCounters(ctx, tx, changed); err != nil {
		return nil, err
	}
	return takeEvents(changed), nil
}

// LockDueReservations locks reservations, of which all seats are locked, and returns those whose time is over.
func LockDueReservations(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*LockedReservations, error) {
	if len(ids) == 0 {
		return &LockedReservations{}, nil
	}
	seats, err := seatsOf(ctx, tx.Queries, ids)
	if err != nil {
		return nil, err
	}
	l, err := lockReservationRows(ctx, tx, ids, seats)
	if err != nil {
		return nil, err
	}
	l.changes = slices.DeleteFunc(l.changes, func(c *reservationChange) bool { return !c.current.Due(l.Now) })
	return l, nil
}

// ExpireTakenOver expires the locked reservations with these ids, and returns the Kafka events. The
// caller must give all their seats to others, or free them.
func (l *LockedReservations) ExpireTakenOver(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) ([]reservation.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var changed []*reservationChange
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

func takeEvents(changed []*reservationChange) []reservation.Event {
	var events []reservation.Event
	for _, c := range changed {
		events = append(events, c.current.TakeEvents()...)
	}
	return events
}

// issueTickets inserts the tickets of reservations that have just been confirmed.
func issueTickets(ctx context.Context, q *postgres.Queries, changed []*reservationChange) error {
	var confirmed []*reservation.Reservation
	for _, c := range changed {
		if c.before.Status != reservation.Confirmed && c.current.Status == reservation.Confirmed {
			confirmed = append(confirmed, c.current)
		}
	}
	return IssueTickets(ctx, q, confirmed)
}
