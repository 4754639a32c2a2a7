package purchases

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

func updateReservations(ctx context.Context, q *postgres.Queries, changed []*reservationChange) error {
	var arg db.UpdateReservationsParams
	for _, c := range changed {
		arg.ReservationIds = append(arg.ReservationIds, c.before.ID)
		arg.Was = append(arg.Was, string(c.before.Status))
		arg.WasVersions = append(arg.WasVersions, c.before.Version)
		arg.Statuses = append(arg.Statuses, string(c.current.Status))
		arg.Reasons = append(arg.Reasons, c.current.Reason)
		arg.ExpiresAt = append(arg.ExpiresAt, c.current.Until)
		arg.Released = append(arg.Released, int32(c.current.Released)) //nolint:gosec // ≤ Quantity
		arg.PaymentIds = append(arg.PaymentIds, c.current.PaymentID)
		arg.Begun = append(arg.Begun, postgres.UUIDArray(c.current.Begun))
		arg.Opens = append(arg.Opens, int32(c.current.Opens))          //nolint:gosec // a small number
		arg.Declines = append(arg.Declines, int32(c.current.Declines)) //nolint:gosec // a small number
		arg.Charging = append(arg.Charging, c.current.Charging)
		arg.Versions = append(arg.Versions, c.current.Version)
	}
	n, err := q.UpdateReservations(ctx, arg)
	return postgres.ExpectRows(n, len(changed), "reservations", err)
}

// seatStatus returns the status that the seats of a reservation in status s have.
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

// updateSeats writes status and end of hold to the seats of reservations that were unpaid before.
func updateSeats(ctx context.Context, q *postgres.Queries, changed []*reservationChange) error {
	var arg db.UpdateSeatsParams
	seats := 0
	for _, c := range changed {
		oldStatus, newStatus := seatStatus(c.before.Status), seatStatus(c.current.Status)
		if c.delayed {
			newStatus = event.SeatStatusDelayed
		}
		if oldStatus != "HELD" || (oldStatus == newStatus && c.before.Until.Equal(c.current.Until)) || len(c.current.Seats) == 0 {
			continue
		}
		arg.ReservationIds = append(arg.ReservationIds, c.before.ID)
		arg.Was = append(arg.Was, oldStatus)
		arg.Statuses = append(arg.Statuses, newStatus)
		arg.HeldUntil = append(arg.HeldUntil, c.current.Until)
		seats += len(c.current.Seats)
	}
	if seats == 0 {
		return nil
	}
	n, err := q.UpdateSeats(ctx, arg)
	return postgres.ExpectRows(n, seats, "seats", err)
}

// endSeats marks the seats of reservations that end unpaid as not live. The unique index then lets
// other reservations have them.
func endSeats(ctx context.Context, q *postgres.Queries, changed []*reservationChange) error {
	var ended []uuid.UUID
	seats := 0
	for _, c := range changed {
		if c.before.Status.Unpaid() && !c.current.Status.Live() && len(c.current.Seats) > 0 {
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

// endGivenBackPlaces ends the places that were refunded or voided. Their seats become free, go to
// the organiser (HOUSE), or wait to be put on sale again (RETURNED).
func endGivenBackPlaces(ctx context.Context, q *postgres.Queries, changed []*reservationChange) error {
	var arg db.GiveSeatsBackParams
	var returned db.InsertReturnsParams
	seats := 0
	for _, c := range changed {
		for _, p := range c.current.ReturnedPlaces() {
			arg.ReservationIds, arg.Ns = append(arg.ReservationIds, c.before.ID), append(arg.Ns, int32(p.N)) //nolint:gosec // ≤ Quantity
			arg.Statuses = append(arg.Statuses, p.SeatStatus())
			section, seat := c.place(p.N)
			if seat != "" {
				seats++
			}
			if p.SeatStatus() == event.SeatStatusReturned {
				returned.EventIds, returned.Sections = append(returned.EventIds, c.before.EventID), append(returned.Sections, section)
				returned.SeatIds, returned.ReleaseAt = append(returned.SeatIds, seat), append(returned.ReleaseAt, p.ReleaseAt)
				returned.Givers, returned.Unpaid = append(returned.Givers, p.Giver), append(returned.Unpaid, false)
			}
		}
	}
	if len(arg.Ns) == 0 {
		return nil
	}
	n, err := q.EndPlaces(ctx, db.EndPlacesParams{ReservationIds: arg.ReservationIds, Ns: arg.Ns})
	if err := postgres.ExpectRows(n, len(arg.Ns), "places", err); err != nil {
		return err
	}
	n, err = q.GiveSeatsBack(ctx, arg)
	if err := postgres.ExpectRows(n, seats, "seats", err); err != nil || len(returned.EventIds) == 0 {
		return err
	}
	return q.InsertReturns(ctx, returned)
}

// place returns the section and the seat of the n-th place; no seat for general admission.
func (c *reservationChange) place(n int) (section, seat string) {
	if len(c.current.Seats) == 0 {
		return c.before.Section, ""
	}
	return c.current.Seats[n-1].Section, c.current.Seats[n-1].ID
}

type sectionKey struct{ eventID, name string }

// heldAndSold has what is added to the counters of held and sold places of a section without seats.
type heldAndSold struct{ held, sold int64 }

func (c *heldAndSold) add(s reservation.Status, n int) {
	switch seatStatus(s) {
	case "HELD":
		c.held += int64(n)
	case "SOLD":
		c.sold += int64(n)
	}
}

// updateGeneralCounters updates the numbers of held and sold places of sections without seats, for
// reservations that were unpaid before the change. Places of delayed ones still count as held.
func updateGeneralCounters(ctx context.Context, q *postgres.Queries, changed []*reservationChange) error {
	deltas := make(map[sectionKey]heldAndSold)
	for _, c := range changed {
		if c.before.Section == "" || !c.before.Status.Unpaid() || c.delayed {
			continue
		}
		key := sectionKey{eventID: c.before.EventID, name: c.before.Section}
		d := deltas[key]
		d.add(c.before.Status, -c.before.Quantity)
		d.add(c.current.Status, c.current.Quantity)
		deltas[key] = d
	}
	var arg db.MoveCountersParams
	for s, d := range deltas {
		if d == (heldAndSold{}) {
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

// updateSoldCounters updates the counters of sections for seats that were just paid, and for all
// places that were given back.
func updateSoldCounters(ctx context.Context, tx *postgres.Tx, changed []*reservationChange) error {
	deltas := make(postgres.CounterDeltas)
	for _, c := range changed {
		if c.before.Status != reservation.Confirmed && c.current.Status == reservation.Confirmed {
			for _, seat := range c.current.Seats {
				deltas.Add(c.before.EventID, seat.Section, postgres.CounterDelta{Sold: 1})
			}
		}
		for _, p := range c.current.ReturnedPlaces() {
			delta := postgres.CounterDelta{Sold: -1}
			switch p.SeatStatus() {
			case event.SeatStatusHouse:
				delta.House = 1
			case event.SeatStatusReturned:
				delta.Returns = 1
			}
			name, _ := c.place(p.N)
			deltas.Add(c.before.EventID, name, delta)
		}
	}
	return tx.AddToCounters(ctx, deltas)
}
