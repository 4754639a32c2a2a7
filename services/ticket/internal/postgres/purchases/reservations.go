package purchases

import (
	"context"
	"time"

	"github.com/google/uuid"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

var _ reservation.Store = (*Reservations)(nil)

// Reservations stores reservations. Reads for users use a separate pool of connections.
type Reservations struct{ database *postgres.Database }

// NewReservations makes a Reservations on the database d.
func NewReservations(d *postgres.Database) *Reservations { return &Reservations{database: d} }

func (s *Reservations) Find(ctx context.Context, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
	return FindReservation(ctx, s.database.Queries(), id)
}

func (s *Reservations) Show(ctx context.Context, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
	return FindReservation(ctx, s.database.ReadQueries(), id)
}

// FindReservation reads a reservation and the database's time, or returns reservation.ErrNotFound.
func FindReservation(ctx context.Context, q *postgres.Queries, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
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

func (s *Reservations) List(
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
	list, err := ReservationsOfRows(ctx, q, reservationRows)
	return list, rows[0].Now.UTC(), err
}

// ReservationsOfRows returns the reservations of rows, in their order. It reads their seats.
func ReservationsOfRows(ctx context.Context, q *postgres.Queries, rows []db.Reservation) ([]reservation.Reservation, error) {
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

func (s *Reservations) Change(ctx context.Context, id uuid.UUID, decide reservation.Decide) (*reservation.Reservation, error) {
	return s.changeOne(ctx, id, func(_ context.Context, _ *postgres.Tx, r *reservation.Reservation, now time.Time) error {
		return decide(r, now)
	})
}

func (s *Reservations) ChangeToBegin(ctx context.Context, id uuid.UUID, change func(p *reservation.Purchase, now time.Time) error) error {
	_, err := s.changeOne(ctx, id, func(ctx context.Context, tx *postgres.Tx, r *reservation.Reservation, _ time.Time) error {
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
	return asReference(err, reservation.ErrNotFound)
}

func (s *Reservations) ChangeClaims(
	ctx context.Context, payments []purchase.UnderWay, change func(p *reservation.Purchase, payment uuid.UUID, now time.Time),
) error {
	ids := make([]uuid.UUID, len(payments))
	for i, p := range payments {
		ids[i] = p.ReferenceID
	}
	return changeReservations(ctx, s.database, ids, func(_ context.Context, _ *postgres.Tx, l *LockedReservations) error {
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

func (s *Reservations) Paying(ctx context.Context, payments []purchase.UnderWay, left time.Duration) (all, short []purchase.UnderWay, err error) {
	q := s.database.Queries()
	return paying(ctx, q, payments, left, q.PayingReservations)
}

// ExpireReservations expires the reservations that have these ids and whose time is over. The
// organiser wants their places, so they are free at once.
func ExpireReservations(ctx context.Context, d *postgres.Database, ids []uuid.UUID) error {
	return changeReservations(ctx, d, ids, func(_ context.Context, _ *postgres.Tx, l *LockedReservations) error {
		l.prompt = true
		l.Expire()
		return nil
	})
}

// changeReservations locks reservations, calls change, and writes the changes and their Kafka events;
// nothing if change returns an error.
func changeReservations(
	ctx context.Context, d *postgres.Database, ids []uuid.UUID, change func(context.Context, *postgres.Tx, *LockedReservations) error,
) error {
	err := d.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		locked, err := LockReservations(ctx, tx, ids)
		if err != nil {
			return err
		}
		if err := change(ctx, tx, locked); err != nil {
			return err
		}
		events, err := locked.Save(ctx, tx)
		if err != nil {
			return err
		}
		return InsertReservationEvents(ctx, tx, events)
	})
	if err == nil {
		d.Published()
	}
	return err
}

// BlockReservations ends the unpaid holds of a user who was blocked at an event (Reservation.Block).
func BlockReservations(ctx context.Context, d *postgres.Database, eventID, userID string) error {
	ids, err := d.Queries().UnpaidOf(ctx, db.UnpaidOfParams{EventID: eventID, UserID: userID})
	if err != nil || len(ids) == 0 {
		return err
	}
	return changeReservations(ctx, d, ids, func(_ context.Context, _ *postgres.Tx, l *LockedReservations) error {
		for _, c := range l.changes {
			c.current.Block(l.Now)
		}
		return nil
	})
}

// changeOne is changeReservations for one reservation. reservation.ErrNotFound: there is none.
func (s *Reservations) changeOne(
	ctx context.Context, id uuid.UUID, decide func(context.Context, *postgres.Tx, *reservation.Reservation, time.Time) error,
) (changed *reservation.Reservation, err error) {
	err = changeReservations(ctx, s.database, []uuid.UUID{id}, func(ctx context.Context, tx *postgres.Tx, l *LockedReservations) error {
		if changed = l.Find(id); changed == nil {
			return reservation.ErrNotFound
		}
		return decide(ctx, tx, changed, l.Now)
	})
	if err != nil {
		return nil, err
	}
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
