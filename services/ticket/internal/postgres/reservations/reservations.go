// Package reservations reads and locks reservations, and writes their changes together with the
// changes of seats, counters, tickets and the outbox.
package reservations

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

var _ reservation.Store = (*Store)(nil)

// Store stores reservations. Reads for users use a separate pool of connections.
type Store struct{ database *postgres.Database }

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

func (s *Store) Find(ctx context.Context, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
	return Find(ctx, s.database.Queries(), id)
}

func (s *Store) Show(ctx context.Context, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
	return Find(ctx, s.database.ReadQueries(), id)
}

// Find reads a reservation and the database's time, or returns reservation.ErrNotFound.
func Find(ctx context.Context, q *postgres.Queries, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
	row, err := q.FindReservation(ctx, db.FindReservationParams{ReservationID: id, Now: q.AsOf})
	if err != nil {
		return nil, time.Time{}, postgres.OrNotFound(err, reservation.ErrNotFound)
	}
	seats, err := seatsOf(ctx, q, []uuid.UUID{id})
	if err != nil {
		return nil, time.Time{}, pkgpostgres.Err(err)
	}
	return toReservation(row.Reservation, seats[id]), row.Now.UTC(), nil
}

func (s *Store) List(
	ctx context.Context, userID string, limit int, before uuid.UUID,
) ([]reservation.Reservation, time.Time, error) {
	q := s.database.ReadQueries()
	rows, err := q.ListReservations(ctx, db.ListReservationsParams{
		UserID: userID, Before: postgres.OrMaxUUID(before), Now: q.AsOf, Max: int32(limit), //nolint:gosec // at most 101
	})
	if err != nil || len(rows) == 0 {
		return nil, time.Time{}, pkgpostgres.Err(err)
	}
	reservationRows := make([]db.Reservation, len(rows))
	for i, r := range rows {
		reservationRows[i] = r.Reservation
	}
	list, err := FromRows(ctx, q, reservationRows)
	return list, rows[0].Now.UTC(), err
}

// FromRows returns the reservations of rows, in their order. It reads their seats.
func FromRows(ctx context.Context, q *postgres.Queries, rows []db.Reservation) ([]reservation.Reservation, error) {
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ReservationID
	}
	seats, err := seatsOf(ctx, q, ids)
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	list := make([]reservation.Reservation, len(rows))
	for i, r := range rows {
		list[i] = *toReservation(r, seats[r.ReservationID])
	}
	return list, nil
}

func (s *Store) Change(ctx context.Context, id uuid.UUID, decide reservation.Decide) (*reservation.Reservation, error) {
	return s.lockAndChange(ctx, id, func(_ context.Context, _ *postgres.Tx, r *reservation.Reservation, now time.Time) error {
		return decide(r, now)
	})
}

func (s *Store) ChangeToBegin(ctx context.Context, id uuid.UUID, change func(p *reservation.Purchase, now time.Time) error) error {
	_, err := s.lockAndChange(ctx, id, func(ctx context.Context, tx *postgres.Tx, r *reservation.Reservation, _ time.Time) error {
		closings, now, err := postgres.Closings(ctx, tx.Queries, []string{r.EventID})
		if err != nil {
			return err
		}
		row, err := tx.PayTerms(ctx, db.PayTermsParams{
			ReservationID: id, Now: tx.ClockTime(), ForgottenAfter: event.ForgottenAfter.Seconds(),
		})
		if err != nil {
			return err
		}
		return change(&reservation.Purchase{
			Reservation: r, Event: closings[r.EventID].State, Blocked: row.Blocked,
			OtherPages: purchase.Pages{Opened: int(row.Pages), Declined: int(row.Declines)},
		}, now)
	})
	return asReference(err)
}

// asReference replaces reservation.ErrNotFound by the error that the payment service expects.
func asReference(err error) error {
	if errors.Is(err, reservation.ErrNotFound) {
		return purchase.ErrReferenceNotFound
	}
	return err
}

func (s *Store) ChangeClaims(
	ctx context.Context, payments []purchase.UnderWay, change func(p *reservation.Purchase, payment uuid.UUID, now time.Time),
) error {
	return changeAll(ctx, s.database, reservationsOf(payments), func(l *Locked) error {
		for _, p := range payments {
			r := l.Find(p.ReferenceID)
			if r == nil {
				return purchase.ErrReferenceNotFound
			}
			change(&reservation.Purchase{Reservation: r}, p.PaymentID, l.Now)
		}
		return nil
	})
}

func (s *Store) Paying(
	ctx context.Context, payments []purchase.UnderWay, left time.Duration,
) (paying, short []purchase.UnderWay, err error) {
	q := s.database.Queries()
	rows, err := q.PayingReservations(ctx, db.PayingReservationsParams{ReservationIds: reservationsOf(payments), Now: q.AsOf})
	if err != nil {
		return nil, nil, pkgpostgres.Err(err)
	}
	for _, row := range rows {
		p := purchase.UnderWay{ReferenceID: row.ReservationID, PaymentID: row.PaymentID.UUID}
		if !slices.Contains(payments, p) {
			continue
		}
		if paying = append(paying, p); row.ExpiresAt.Before(row.Now.Add(left)) {
			short = append(short, p)
		}
	}
	return paying, short, nil
}

func reservationsOf(payments []purchase.UnderWay) []uuid.UUID {
	ids := make([]uuid.UUID, len(payments))
	for i, p := range payments {
		ids[i] = p.ReferenceID
	}
	return ids
}

// Expire expires the reservations that have these ids and whose time is over. The organiser wants
// their places, so they are free at once.
func Expire(ctx context.Context, d *postgres.Database, ids []uuid.UUID) error {
	return changeAll(ctx, d, ids, func(l *Locked) error {
		l.prompt = true
		l.Expire()
		return nil
	})
}

// changeAll locks reservations, calls change, and writes the changes and their Kafka events; nothing if
// change returns an error.
func changeAll(ctx context.Context, d *postgres.Database, ids []uuid.UUID, change func(*Locked) error) error {
	err := d.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		locked, err := Lock(ctx, tx, ids)
		if err != nil {
			return err
		}
		if err := change(locked); err != nil {
			return err
		}
		events, err := locked.Save(ctx, tx)
		if err != nil {
			return err
		}
		return InsertEvents(ctx, tx, events)
	})
	if err == nil {
		d.Published()
	}
	return err
}

// Block ends the unpaid holds of a user who was blocked at an event (see Reservation.Block).
func Block(ctx context.Context, d *postgres.Database, eventID, userID string) error {
	ids, err := d.Queries().UnpaidOf(ctx, db.UnpaidOfParams{EventID: eventID, UserID: userID})
	if err != nil || len(ids) == 0 {
		return err
	}
	return changeAll(ctx, d, ids, func(l *Locked) error {
		for _, c := range l.changes {
			c.current.Block(l.Now)
		}
		return nil
	})
}

// lockAndChange locks a reservation, calls decide to change it, and writes the changes and their
// Kafka events.
func (s *Store) lockAndChange(
	ctx context.Context, id uuid.UUID, decide func(context.Context, *postgres.Tx, *reservation.Reservation, time.Time) error,
) (changed *reservation.Reservation, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		locked, err := Lock(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		if changed = locked.Find(id); changed == nil {
			return reservation.ErrNotFound
		}
		if err := decide(ctx, tx, changed, locked.Now); err != nil {
			return err
		}
		events, err := locked.Save(ctx, tx)
		if err != nil {
			return err
		}
		return InsertEvents(ctx, tx, events)
	})
	if err != nil {
		return nil, err
	}
	s.database.Published()
	return changed, nil
}

func toReservation(r db.Reservation, seats []reservation.Seat) *reservation.Reservation {
	return &reservation.Reservation{
		ID: r.ReservationID, Origin: reservation.Origin(r.Origin), EventID: r.EventID, UserID: r.UserID, SlotID: r.SlotID, Section: r.Section, Seats: seats,
		Quantity: int(r.Quantity), Released: int(r.Released), Amount: r.Amount, Fee: r.Fee, Currency: r.Currency,
		Status: reservation.Status(r.Status), Reason: r.Reason,
		Version: r.Version, CreatedAt: r.CreatedAt.UTC(), Claim: purchase.Claim{
			PaymentID: r.PaymentID.UUID, Until: r.ExpiresAt.UTC(), OriginalEnd: r.HoldEndsAt.UTC(), Opens: int(r.Opens), Declines: int(r.Declines),
			Charging: r.Charging, Begun: r.Begun,
		},
	}
}

// seatsOf reads the seats of reservations, by reservation id, in the order of the places' numbers.
func seatsOf(ctx context.Context, q *postgres.Queries, ids []uuid.UUID) (map[uuid.UUID][]reservation.Seat, error) {
	rows, err := q.SeatsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	seats := make(map[uuid.UUID][]reservation.Seat)
	for _, r := range rows {
		seat := reservation.NewSeat(r.SeatID, r.Price)
		seat.Fee = r.Fee
		seats[r.ReservationID] = append(seats[r.ReservationID], seat)
	}
	return seats, nil
}
