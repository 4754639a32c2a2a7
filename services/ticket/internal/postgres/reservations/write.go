package reservations

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

func updateReservations(ctx context.Context, q *postgres.Queries, changed []*change) error {
	var arg db.UpdateReservationsParams
	for _, c := range changed {
		arg.ReservationIds = append(arg.ReservationIds, c.before.ID)
		arg.Was = append(arg.Was, string(c.before.Status))
		arg.WasVersions = append(arg.WasVersions, c.before.Version)
		arg.Statuses = append(arg.Statuses, string(c.current.Status))
		arg.Reasons = append(arg.Reasons, c.current.Reason)
		arg.ExpiresAt = append(arg.ExpiresAt, c.current.ExpiresAt)
		arg.PaymentIds = append(arg.PaymentIds, c.current.PaymentID)
		arg.Versions = append(arg.Versions, c.current.Version)
	}
	n, err := q.UpdateReservations(ctx, arg)
	return postgres.ExpectRows(n, len(changed), "reservations", err)
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

// updateSeats gives the seats of changed reservations the status and expiry of their reservation.
func updateSeats(ctx context.Context, q *postgres.Queries, changed []*change) error {
	var arg db.UpdateSeatsParams
	seats := 0
	for _, c := range changed {
		was, now := seatStatus(c.before.Status), seatStatus(c.current.Status)
		if was == "FREE" || (was == now && c.before.ExpiresAt.Equal(c.current.ExpiresAt)) || len(c.current.Seats) == 0 {
			continue
		}
		arg.ReservationIds = append(arg.ReservationIds, c.before.ID)
		arg.Was = append(arg.Was, was)
		arg.Statuses = append(arg.Statuses, now)
		arg.HeldUntil = append(arg.HeldUntil, c.current.ExpiresAt)
		seats += len(c.current.Seats)
	}
	if seats == 0 {
		return nil
	}
	n, err := q.UpdateSeats(ctx, arg)
	return postgres.ExpectRows(n, seats, "seats", err)
}

// endSeats marks the seats of reservations that have just ended as not live, so that the unique
// index lets others reserve them.
func endSeats(ctx context.Context, q *postgres.Queries, changed []*change) error {
	var ended []uuid.UUID
	seats := 0
	for _, c := range changed {
		if c.before.Status.Live() && !c.current.Status.Live() && len(c.current.Seats) > 0 {
			ended = append(ended, c.before.ID)
			seats += len(c.current.Seats)
		}
	}
	if seats == 0 {
		return nil
	}
	n, err := q.EndSeats(ctx, ended)
	return postgres.ExpectRows(n, seats, "seats of reservations", err)
}

// Section names a section of an event.
type Section struct{ EventID, Name string }

// Counters are places of a section with general admission.
type Counters struct{ Held, Sold int64 }

// moveCounters does for general admission what updateSeats does for seats.
func moveCounters(ctx context.Context, q *postgres.Queries, changed []*change) error {
	deltas := make(map[Section]Counters)
	for _, c := range changed {
		if c.before.Section == "" {
			continue
		}
		key := Section{EventID: c.before.EventID, Name: c.before.Section}
		d := deltas[key]
		d.add(c.before.Status, -c.before.Quantity)
		d.add(c.current.Status, c.current.Quantity)
		deltas[key] = d
	}
	return MoveCounters(ctx, q, deltas)
}

func (c *Counters) add(s reservation.Status, n int) {
	switch seatStatus(s) {
	case "HELD":
		c.Held += int64(n)
	case "SOLD":
		c.Sold += int64(n)
	}
}

// MoveCounters adds to the counters of sections, which must be locked.
func MoveCounters(ctx context.Context, q *postgres.Queries, deltas map[Section]Counters) error {
	var arg db.MoveCountersParams
	for s, d := range deltas {
		if d == (Counters{}) {
			continue
		}
		arg.EventIds, arg.Sections = append(arg.EventIds, s.EventID), append(arg.Sections, s.Name)
		arg.Held, arg.Sold = append(arg.Held, d.Held), append(arg.Sold, d.Sold)
	}
	if len(arg.Sections) == 0 {
		return nil
	}
	n, err := q.MoveCounters(ctx, arg)
	return postgres.ExpectRows(n, len(arg.Sections), "sections", err)
}
