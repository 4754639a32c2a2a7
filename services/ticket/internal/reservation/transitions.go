package reservation

import (
	"time"

	"github.com/google/uuid"
)

// Expire expires the reservation if its time is over, and reports whether it did.
func (r *Reservation) Expire(now time.Time) bool {
	if !r.Due(now) {
		return false
	}
	r.Status, r.Reason, r.PaymentID = Expired, ReasonHoldExpired, uuid.Nil
	r.Version++
	r.emit(EventExpired, ReasonHoldExpired, uuid.Nil, now)
	return true
}

// CancelWithEvent cancels an unpaid reservation because the refunds of its cancelled event have begun.
func (r *Reservation) CancelWithEvent(now time.Time) {
	if !r.Status.Unpaid() || r.Expire(now) {
		return
	}
	r.Status, r.Reason, r.PaymentID = Cancelled, ReasonEventCancelled, uuid.Nil
	r.Version++
	r.emit(EventCancelled, ReasonEventCancelled, uuid.Nil, now)
}

// Cancel ends a hold, and may be repeated. ErrHoldExpired when the hold's time is over; ErrNotHeld
// if the reservation is in another status than HELD: a payment under way must end first.
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

// Payable returns nil while the reservation is HELD or PAYING and its time is not over.
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

// BeginPayment moves the reservation to PAYING. Its places stay held for PayWithin, or until the hold
// ends if that is later. A repeated call does not move this end. ErrPaymentInProgress while another
// payment is under way; ErrHoldExpired if the hold would be extended by more than maxExtension.
func (r *Reservation) BeginPayment(payment uuid.UUID, now time.Time, maxExtension time.Duration) error {
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
	if end.Before(r.ExpiresAt) {
		end = r.ExpiresAt
	}
	if end.After(r.HoldEndsAt.Add(maxExtension)) {
		return ErrHoldExpired
	}
	r.Status, r.PaymentID, r.ExpiresAt = Paying, payment, end
	r.Version++
	return nil
}

// AbortPayment returns the reservation to HELD after a payment that was definitely declined. The
// hold then lasts until HoldEndsAt, at least for RetryWithin, but never beyond the last moment at
// which BeginPayment accepts another payment. A hold without any time left expires at once. If the
// payment is not under way, or its time is over, AbortPayment does nothing: an expired hold is not
// restored, since its user may hold other places by now.
func (r *Reservation) AbortPayment(payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	if r.Status != Paying || r.PaymentID != payment || r.Due(now) {
		return
	}
	r.Status, r.PaymentID, r.ExpiresAt = Held, uuid.Nil, r.HoldEndsAt
	if least := now.Add(RetryWithin); r.ExpiresAt.Before(least) {
		r.ExpiresAt = least
	}
	if last := r.HoldEndsAt.Add(maxExtension - PayWithin); r.ExpiresAt.After(last) {
		r.ExpiresAt = last
	}
	r.Version++
	r.Expire(now)
}
