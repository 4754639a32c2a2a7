package reservation

import (
	"time"

	"github.com/google/uuid"
)

// Expire ends a reservation whose time is over; false when its time is not over, or it is in a
// final status.
func (r *Reservation) Expire(now time.Time) bool {
	if !r.Due(now) {
		return false
	}
	r.Status, r.Reason, r.PaymentID = Expired, ReasonHoldExpired, uuid.Nil
	r.Version++
	r.emit(EventExpired, ReasonHoldExpired, uuid.Nil, now)
	return true
}

// Cancel ends a hold. It is idempotent. ErrHoldExpired when its time is over, ErrNotHeld in any
// other status: a payment that has begun must end first.
func (r *Reservation) Cancel(now time.Time) error {
	switch {
	case r.Due(now) || r.Status == Expired:
		return ErrHoldExpired
	case r.Status == Cancelled:
		return nil
	case r.Status != Held:
		return ErrNotHeld
	}
	r.Status, r.Reason = Cancelled, ReasonUser
	r.Version++
	r.emit(EventCancelled, ReasonUser, uuid.Nil, now)
	return nil
}

// Payable is nil while the reservation can be paid: held, or with a payment under way, and in time.
func (r *Reservation) Payable(now time.Time) error {
	switch {
	case r.Due(now) || r.Status == Expired:
		return ErrHoldExpired
	case r.Status == Confirmed:
		return ErrAlreadyPaid
	case !r.Status.Unpaid():
		return ErrNotPayable
	default:
		return nil
	}
}

// BeginPayment moves the reservation to PAYING for PayWithin, during which its seats cannot be
// taken. Repeating it for the same payment changes nothing, not even the time; meanwhile another
// payment is refused with ErrPaymentInProgress. ErrHoldExpired when the payment would extend the
// hold by more than extension.
func (r *Reservation) BeginPayment(payment uuid.UUID, now time.Time, extension time.Duration) error {
	if err := r.Payable(now); err != nil {
		return err
	}
	if r.Status == Paying {
		if r.PaymentID != payment {
			return ErrPaymentInProgress
		}
		return nil
	}
	end := now.Add(PayWithin)
	if end.After(r.HoldEndsAt.Add(extension)) {
		return ErrHoldExpired
	}
	r.Status, r.PaymentID, r.ExpiresAt = Paying, payment, end
	r.Version++
	return nil
}

// AbortPayment returns the reservation to HELD after a payment that was definitely declined: for
// the rest of the hold, but at least RetryWithin, as long as another payment could still have its
// whole time within extension. A hold that could not be paid any more expires at once. Nothing
// happens when that payment is not under way, or its time is over: an expired hold is not restored,
// since its user may hold other seats by now.
func (r *Reservation) AbortPayment(payment uuid.UUID, now time.Time, extension time.Duration) {
	if r.Status != Paying || r.PaymentID != payment || r.Due(now) {
		return
	}
	r.Status, r.PaymentID, r.ExpiresAt = Held, uuid.Nil, r.HoldEndsAt
	if least := now.Add(RetryWithin); r.ExpiresAt.Before(least) {
		r.ExpiresAt = least
	}
	if last := r.HoldEndsAt.Add(extension - PayWithin); r.ExpiresAt.After(last) {
		r.ExpiresAt = last
	}
	r.Version++
	r.Expire(now)
}
