package reservation

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
)

// ReturnedPlace is a place whose ticket was refunded or voided.
type ReturnedPlace struct {
	// N is the place's number in its reservation, from 1.
	N int
	// Fee is the part of the refund that is fees.
	Fee int64
	// House: the organiser gets the place, not the sale. The old ticket was voided, or doors may
	// have it on their lists, or nothing is sold any more.
	House bool
	// ReleaseAt is when the place is for sale again, unless House is true; zero: at once.
	ReleaseAt time.Time
	// Giver is the user for whose limit the place counts until ReleaseAt; empty: nobody's.
	Giver string
}

// SeatStatus returns the new status of the seat.
func (g *ReturnedPlace) SeatStatus() string {
	switch {
	case g.House:
		return event.SeatStatusHouse
	case !g.ReleaseAt.IsZero():
		return event.SeatStatusReturned
	default:
		return event.SeatStatusFree
	}
}

// GiveBack ends places of a confirmed reservation whose tickets were refunded. When the last place
// has ended, the reservation is REFUNDED, also if others were voided before.
func (r *Reservation) GiveBack(places []ReturnedPlace, now time.Time) {
	r.release(places, Refunded, EventCancelled, purchase.ReasonRefunded, now)
}

// Void ends places of a confirmed reservation whose tickets were voided; the organiser gets them.
// When the last place has ended, the reservation is VOIDED, also if others were refunded before.
func (r *Reservation) Void(numbers []int, now time.Time) {
	places := make([]ReturnedPlace, len(numbers))
	for i, n := range numbers {
		places[i] = ReturnedPlace{N: n, House: true}
	}
	r.release(places, Voided, EventVoided, ReasonVoided, now)
}

// release ends places. If these are the last ones, the reservation gets the status and the reason.
func (r *Reservation) release(places []ReturnedPlace, last Status, typ EventType, reason string, now time.Time) {
	if len(places) == 0 {
		return
	}
	r.returned = append(r.returned, places...)
	r.Released += len(places)
	if r.Released == r.Quantity {
		r.Status, r.Reason = last, reason
	}
	r.Version++
	released := *r
	released.Quantity, released.Seats, released.Fee = len(places), nil, 0
	for _, p := range places {
		released.Fee += p.Fee
	}
	if len(r.Seats) > 0 {
		for _, p := range places {
			released.Seats = append(released.Seats, r.Seats[p.N-1])
		}
	}
	r.emitWith(released, typ, reason, uuid.Nil, now)
}

// GiveBackFee adds the Kafka event that a fee was given back for a ticket that had been passed on. It
// ends no place.
func (r *Reservation) GiveBackFee(fee int64, now time.Time) {
	if fee == 0 {
		return
	}
	r.Version++
	given := *r
	given.Quantity, given.Seats, given.Fee = 0, nil, fee
	r.emitWith(given, EventCancelled, purchase.ReasonRefunded, uuid.Nil, now)
}

// ReturnedPlaces returns the places that were given back or voided since the reservation was read.
func (r *Reservation) ReturnedPlaces() []ReturnedPlace { return r.returned }
