package reservations

import (
	"context"
	"maps"

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

// seatStatus returns the status of the seats of a reservation in status s.
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

// updateSeats sets the status and the end of the hold of the reservations' seats.
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

// endSeats marks the seats of reservations that end as not live, so that the unique index lets
// others reserve them.
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

type section struct{ eventID, name string }

// counters are the numbers of held and sold places of a section with general admission.
type counters struct{ held, sold int64 }

func (c *counters) add(s reservation.Status, n int) {
	switch seatStatus(s) {
	case "HELD":
		c.held += int64(n)
	case "SOLD":
		c.sold += int64(n)
	}
}

// moveCounters adds the changed reservations to the held and sold counters of their sections.
func moveCounters(ctx context.Context, q *postgres.Queries, changed []*change) error {
	deltas := make(map[section]counters)
	for _, c := range changed {
		if c.before.Section == "" {
			continue
		}
		key := section{eventID: c.before.EventID, name: c.before.Section}
		d := deltas[key]
		d.add(c.before.Status, -c.before.Quantity)
		d.add(c.current.Status, c.current.Quantity)
		deltas[key] = d
	}
	var arg db.MoveCountersParams
	for s, d := range deltas {
		if d == (counters{}) {
			continue
		}
		arg.EventIds, arg.Sections = append(arg.EventIds, s.eventID), append(arg.Sections, s.name)
		arg.Held, arg.Sold = append(arg.Held, d.held), append(arg.Sold, d.sold)
	}
	if len(arg.Sections) == 0 {
		return nil
	}
	n, err := q.MoveCounters(ctx, arg)
	return postgres.ExpectRows(n, len(arg.Sections), "sections", err)
}

// moveSeatsSold adds the changed reservations to the counters of sold seats.
func moveSeatsSold(ctx context.Context, q *postgres.Queries, changed []*change) error {
	deltas := make(map[section]int64)
	for _, c := range changed {
		var delta int64
		switch was, is := seatStatus(c.before.Status) == "SOLD", seatStatus(c.current.Status) == "SOLD"; {
		case !was && is:
			delta = 1
		case was && !is:
			delta = -1
		default:
			continue
		}
		for _, seat := range c.current.Seats {
			deltas[section{eventID: c.before.EventID, name: seat.Section}] += delta
		}
	}
	maps.DeleteFunc(deltas, func(_ section, n int64) bool { return n == 0 })
	if len(deltas) == 0 {
		return nil
	}
	var arg db.MoveSeatsSoldParams
	for s, n := range deltas {
		arg.EventIds, arg.Sections, arg.Sold = append(arg.EventIds, s.eventID), append(arg.Sections, s.name), append(arg.Sold, n)
	}
	n, err := q.MoveSeatsSold(ctx, arg)
	return postgres.ExpectRows(n, len(deltas), "sections", err)
}
