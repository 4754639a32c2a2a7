package reservation

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
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

// CancelWithEvent cancels an unpaid reservation when the refunds of its cancelled event begin.
func (r *Reservation) CancelWithEvent(now time.Time) {
	if !r.Status.Unpaid() || r.Expire(now) {
		return
	}
	r.Status, r.Reason, r.PaymentID = Cancelled, ReasonEventCancelled, uuid.Nil
	r.Version++
	r.emit(EventCancelled, ReasonEventCancelled, uuid.Nil, now)
}

// Cancel ends a hold, and may be repeated. It also ends a hold while a payment's page is open:
// before the charge the payment service calls ClaimFor again, which then fails, so nothing is
// charged. The Kafka event has the id of that payment. Errors: ErrHoldExpired when the hold's time
// is over; ErrNotHeld in other statuses, and while a payment may have been charged.
func (r *Reservation) Cancel(now time.Time) error {
	switch {
	case r.Due(now) || r.Status == Expired:
		return ErrHoldExpired
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

// cancel ends a hold. ExpiresAt becomes the time of its end.
func (r *Reservation) cancel(reason string, now time.Time) {
	payment := r.PaymentID
	r.Status, r.Reason, r.PaymentID, r.ExpiresAt = Cancelled, reason, uuid.Nil, now
	r.Version++
	r.emit(EventCancelled, reason, payment, now)
}

// Payable returns nil while the reservation can be paid: it is HELD or PAYING, in time.
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

// PayTime is the time that a payment asks for; the zero value asks for exactly PayWithin.
type PayTime struct {
	// Within is the time, from now on, that the payment asks for; AtLeast is the least it accepts.
	Within, AtLeast time.Duration
	// Opens: the payment only opens the provider's page, and charges nothing yet.
	Opens bool
	// Others are the pages of the user's other unpaid holds of the event.
	Others Pages
}

// Pages counts payment pages that were opened for unpaid holds within event.ForgottenAfter, and
// payments that were declined.
type Pages struct{ Opened, Declined int }

// left reports whether the user may open another page.
func (p Pages) left() bool { return p.Opened-min(p.Declined, event.Forgiven) < event.MaxPages }

// End returns the end of the time to pay that a payment gets: not before the present end, and at
// most maxExtension after the original end. It fails with ErrHoldExpired if AtLeast is not left.
func (t PayTime) End(present, original, now time.Time, maxExtension time.Duration) (time.Time, error) {
	if t.Within == 0 {
		t.Within, t.AtLeast = PayWithin, PayWithin
	}
	last := original.Add(maxExtension)
	if t.Opens {
		last = last.Add(-chargeWithin)
	}
	end := latest(present, earliest(now.Add(t.Within), last))
	if end.Before(now.Add(t.AtLeast)) {
		return time.Time{}, ErrHoldExpired
	}
	return end, nil
}

// ExtendedTo returns the new end of the time to pay of a payment under way: ExtendTo from now, but
// at most maxExtension after the original end.
func ExtendedTo(now, original time.Time, maxExtension time.Duration) time.Time {
	return earliest(now.Add(ExtendTo), original.Add(maxExtension))
}

// BeginPayment is ClaimFor with the zero PayTime.
func (r *Reservation) BeginPayment(payment uuid.UUID, now time.Time, maxExtension time.Duration) error {
	return r.ClaimFor(payment, now, maxExtension, PayTime{})
}

// ClaimFor moves the reservation to PAYING, so that its places stay held while the payment is made.
// It never shortens the hold, and extends it by at most maxExtension. A repeated call changes
// nothing, except just before the charge: it then extends the hold again, since the places must
// stay held during the charge. Errors: ErrPaymentInProgress while another payment is under way;
// ErrHoldExpired when the hold cannot be extended by the least time that the payment accepts;
// ErrNotPayable for a payment page after the first event.MaxPages pages of the user's holds, without those
// that are forgiven.
func (r *Reservation) ClaimFor(payment uuid.UUID, now time.Time, maxExtension time.Duration, t PayTime) error {
	if err := r.Payable(now); err != nil {
		return err
	}
	renews := r.Status == Paying
	switch {
	case renews && r.PaymentID != payment:
		return ErrPaymentInProgress
	case renews && (t.Opens || t.Within == 0 && r.Charging):
		return nil
	case t.Opens && !(Pages{Opened: r.Opens + t.Others.Opened, Declined: r.Declines + t.Others.Declined}).left():
		return ErrNotPayable
	}
	end, err := t.End(r.ExpiresAt, r.HoldEndsAt, now, maxExtension)
	if err != nil {
		return err
	}
	if renews && end.Equal(r.ExpiresAt) && r.Charging {
		return nil
	}
	if t.Opens {
		r.Opens++
	}
	r.Status, r.PaymentID, r.ExpiresAt, r.Charging = Paying, payment, end, !t.Opens
	r.Begun = WithBegun(r.Begun, payment)
	r.Version++
	return nil
}

// Extend gives a payment under way more time, by at most maxExtension in all. A payment whose time
// is over gets none, since another user may hold its places by now.
func (r *Reservation) Extend(payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	end := ExtendedTo(now, r.HoldEndsAt, maxExtension)
	if r.Status != Paying || r.PaymentID != payment || r.Due(now) || !end.After(r.ExpiresAt) {
		return
	}
	r.ExpiresAt = end
	r.Version++
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
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
	r.Status, r.PaymentID, r.ExpiresAt, r.Charging = Held, uuid.Nil, RetryUntil(r.HoldEndsAt, now, maxExtension), false
	r.Version++
	r.Expire(now)
}

// Failure says why a payment was not taken; zero: the user gave it up, or let its time pass.
type Failure struct {
	// Declined: it was declined, or could not be charged. Unopened: the provider has opened no page for it.
	Declined, Unopened bool
}

// FailPayment is AbortPayment, and remembers that the user has tried to pay. A page that was not
// opened does not count.
func (r *Reservation) FailPayment(payment uuid.UUID, why Failure, now time.Time, maxExtension time.Duration) {
	if r.Status == Paying && r.PaymentID == payment && !r.Due(now) {
		if why.Declined || why.Unopened {
			r.Declines++
		}
		if why.Unopened {
			r.Opens = max(0, r.Opens-1)
		}
	}
	r.AbortPayment(payment, now, maxExtension)
}

// RetryUntil returns the end of the time to pay after a payment that was declined. It is the
// original end, or RetryWithin from now if that is later, but must leave PayWithin to pay again.
func RetryUntil(original, now time.Time, maxExtension time.Duration) time.Time {
	return earliest(latest(original, now.Add(RetryWithin)), original.Add(maxExtension-PayWithin))
}
