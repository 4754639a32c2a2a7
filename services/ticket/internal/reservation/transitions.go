package reservation

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/purchase"
)

// Expire expires the reservation if its time is over, and reports whether it did.
func (r *Reservation) Expire(now time.Time) bool {
	if !r.Due(now) {
		return false
	}
	r.Status, r.Reason, r.PaymentID = Expired, purchase.ReasonHoldExpired, uuid.Nil
	r.Version++
	r.emit(EventExpired, purchase.ReasonHoldExpired, uuid.Nil, now)
	return true
}

// CancelWithEvent cancels an unpaid reservation when the refunds of its cancelled event begin.
func (r *Reservation) CancelWithEvent(now time.Time) {
	if !r.Status.Unpaid() || r.Expire(now) {
		return
	}
	r.Status, r.Reason, r.PaymentID = Cancelled, purchase.ReasonEventCancelled, uuid.Nil
	r.Version++
	r.emit(EventCancelled, purchase.ReasonEventCancelled, uuid.Nil, now)
}

// Cancel ends a hold, and may be repeated. It also ends a hold while a payment's page is open:
// before the charge the payment service calls BeginPayment again, which then fails, so nothing is
// charged. The Kafka event has the id of that payment. Errors: purchase.ErrHoldExpired when the hold's time
// is over; ErrNotHeld in other statuses, and while a payment may have been charged.
func (r *Reservation) Cancel(now time.Time) error {
	switch {
	case r.Due(now) || r.Status == Expired:
		return purchase.ErrHoldExpired
	case r.Status == Cancelled:
		return nil
	case !r.Status.Unpaid() || r.Charging:
		return ErrNotHeld
	}
	r.cancel(ReasonUser, now)
	return nil
}

// Block ends a hold, as Cancel does, when its user is blocked at the event. It changes nothing while
// a payment may have been charged.
func (r *Reservation) Block(now time.Time) {
	if r.Status.Unpaid() && !r.Charging && !r.Expire(now) {
		r.cancel(ReasonBlocked, now)
	}
}

// cancel ends a hold. Until becomes the time of its end.
func (r *Reservation) cancel(reason string, now time.Time) {
	payment := r.PaymentID
	r.Status, r.Reason, r.PaymentID, r.Until = Cancelled, reason, uuid.Nil, now
	r.Version++
	r.emit(EventCancelled, reason, payment, now)
}
