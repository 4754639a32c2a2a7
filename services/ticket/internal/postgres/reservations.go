package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

// Find implements reservation.Store.
func (s *Store) Find(ctx context.Context, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
	return findReservation(ctx, s.queries(s.pool), id)
}

func findReservation(ctx context.Context, q *queries, id uuid.UUID) (*reservation.Reservation, time.Time, error) {
	row, err := q.FindReservation(ctx, db.FindReservationParams{ReservationID: id, Now: q.now})
	if err != nil {
		return nil, time.Time{}, orNotFound(err, reservation.ErrNotFound)
	}
	seats, err := q.SeatsOf(ctx, []uuid.UUID{id})
	if err != nil {
		return nil, time.Time{}, postgres.Err(err)
	}
	return toReservation(row.Reservation, seatsByReservation(seats)[id]), row.Now.UTC(), nil
}

// List implements reservation.Store.
func (s *Store) List(
	ctx context.Context, userID string, limit int, before uuid.UUID,
) ([]reservation.Reservation, time.Time, error) {
	q := s.queries(s.pool)
	rows, err := q.ListReservations(ctx, db.ListReservationsParams{
		UserID: userID, Before: orLast(before), Now: q.now, Max: int32(limit), //nolint:gosec // at most 101
	})
	if err != nil || len(rows) == 0 {
		return nil, time.Time{}, postgres.Err(err)
	}
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.Reservation.ReservationID
	}
	seatRows, err := q.SeatsOf(ctx, ids)
	if err != nil {
		return nil, time.Time{}, postgres.Err(err)
	}
	seats := seatsByReservation(seatRows)
	list := make([]reservation.Reservation, len(rows))
	for i, r := range rows {
		list[i] = *toReservation(r.Reservation, seats[r.Reservation.ReservationID])
	}
	return list, rows[0].Now.UTC(), nil
}

// orLast is the place before which a list begins: the whole list for the zero UUID.
func orLast(before uuid.UUID) uuid.UUID {
	if before == uuid.Nil {
		return uuid.Max
	}
	return before
}

// SoldByEvent counts the places sold of up to max sales that are open or ended less than a day ago.
func (s *Store) SoldByEvent(ctx context.Context, max int) (map[string]int64, error) {
	q := s.queries(s.pool)
	rows, err := q.SoldByEvent(ctx, db.SoldByEventParams{Now: q.now, Max: int32(max)}) //nolint:gosec // a batch
	if err != nil {
		return nil, postgres.Err(err)
	}
	sold := make(map[string]int64, len(rows))
	for _, r := range rows {
		sold[r.EventID] = r.Sold
	}
	return sold, nil
}
