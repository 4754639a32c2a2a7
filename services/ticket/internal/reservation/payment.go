package reservation

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
)

// Payment is a payment that was made for a reservation, a transfer or a membership.
type Payment struct {
	ID       uuid.UUID
	UserID   string
	EventID  string
	Amount   int64
	Currency string
	// WholeOnly: only the whole amount can be refunded, no part of it.
	WholeOnly bool
	// EndedWhy is set for a payment that can never pay for anything: the reason of its rejection,
	// or ReasonRefunded if it was given back before its confirmation was delivered.
	EndedWhy string
}

// WithBegun returns the payments that were begun for a purchase, with one more.
func WithBegun(begun []uuid.UUID, payment uuid.UUID) []uuid.UUID {
	if slices.Contains(begun, payment) {
		return begun
	}
	return append(begun, payment)
}

// Begun reports whether the payment is one of those begun for a purchase, or its present one, and is
// of its amount. The payment service begins a payment before it charges it, and never changes it.
func (p Payment) Begun(begun []uuid.UUID, present uuid.UUID, amount int64, currency string) bool {
	known := p.ID != uuid.Nil && (p.ID == present || slices.Contains(begun, p.ID))
	return known && p.Amount == amount && p.Currency == currency
}

// HasBegun reports whether the payment was begun for this reservation, by its user.
func (r *Reservation) HasBegun(p Payment) bool {
	return p.UserID == r.UserID && p.Begun(r.Begun, r.PaymentID, r.Amount, r.Currency)
}

// Settle applies a payment that the provider has taken, and that was begun. It confirms the reservation or rejects the
// payment, which is then refunded, and returns the reason of a rejection; the caller must then call
// AbortPayment too. While another payment is under way this one is accepted, and the other one is
// rejected if it is taken later. Settle is idempotent.
func (r *Reservation) Settle(p Payment, now time.Time) (rejected string) {
	r.Expire(now)
	switch {
	case r.PaymentID == p.ID && !r.Status.Unpaid(): // applied before: confirmed, rejected or refunded
		return ""
	case p.EndedWhy != "":
		return r.rejectPayment(p, p.EndedWhy, now)
	case r.Status == Confirmed:
		return r.rejectPayment(p, ReasonAlreadyPaid, now)
	case r.Status.Unpaid():
		r.Status, r.PaymentID, r.WholeOnly = Confirmed, p.ID, p.WholeOnly
		r.Version++
		r.emit(EventConfirmed, "", p.ID, now)
		return ""
	case r.Status == Expired, r.Status == Cancelled:
		reason := ReasonHoldExpired
		if r.Status == Cancelled {
			reason = ReasonCancelled
		}
		r.Status, r.PaymentID, r.Reason = Rejected, p.ID, reason
		return r.rejectPayment(p, reason, now)
	default: // another payment of a REJECTED, REFUNDED or VOIDED reservation
		return r.rejectPayment(p, r.Reason, now)
	}
}

// rejectPayment adds the Kafka event that makes the payment service refund p. The version grows
// even if the status stays, so that the event is newer than the one before.
func (r *Reservation) rejectPayment(p Payment, reason string, now time.Time) string {
	r.Version++
	r.emit(EventPaymentRejected, reason, p.ID, now)
	return reason
}

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
	r.release(places, Refunded, EventCancelled, ReasonRefunded, now)
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
	r.emitWith(given, EventCancelled, ReasonRefunded, uuid.Nil, now)
}

// ReturnedPlaces returns the places that were given back or voided since the reservation was read.
func (r *Reservation) ReturnedPlaces() []ReturnedPlace { return r.returned }
