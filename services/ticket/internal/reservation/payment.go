package reservation

import (
	"time"

	"github.com/google/uuid"
)

// Payment is money that was taken for a reservation.
type Payment struct {
	ID       uuid.UUID
	UserID   string
	EventID  string
	Amount   int64
	Currency string
	// AlreadyRefunded: it is known to have been refunded since.
	AlreadyRefunded bool
}

// Cause says why a payment was refunded.
type Cause string

// The causes of refunds. After the first two the reservation stays what it is: a compensation refunds a payment that was rejected, and a
// transfer pays the seller a part of the price.
const (
	CauseCompensation   Cause = "COMPENSATION"
	CauseTransfer       Cause = "TRANSFER"
	CauseUser           Cause = "USER"
	CauseOperator       Cause = "OPERATOR"
	CauseEventCancelled Cause = "EVENT_CANCELLED"
)

// Paid settles a payment that the provider has taken. Either it confirms the reservation, or it is rejected by an event, whereupon it is
// refunded: no payment is passed over. Money that comes while the reservation waits for another payment is welcome; the other one is
// then rejected, should it come too. What was given back before it was heard of is rejected as well: it may have been a part only.
// Repeating it changes nothing.
func (r *Reservation) Paid(p Payment, now time.Time) {
	r.Expire(now)
	switch {
	case r.PaymentID == p.ID && !r.Status.Unpaid(): // settled already: confirmed, rejected or refunded
	case p.AlreadyRefunded:
		r.refuse(p, ReasonRefunded, now)
	case r.Status == Confirmed:
		r.refuse(p, ReasonAlreadyPaid, now)
	case r.Amount != p.Amount || r.Currency != p.Currency:
		r.refuse(p, ReasonAmountMismatch, now)
	case r.Status.Unpaid():
		r.Status, r.PaymentID = Confirmed, p.ID
		r.Version++
		r.emit(WasConfirmed, "", p.ID, now)
	case r.Status == Expired, r.Status == Cancelled:
		reason := ReasonHoldExpired
		if r.Status == Cancelled {
			reason = ReasonCancelled
		}
		r.Status, r.PaymentID, r.Reason = Rejected, p.ID, reason
		r.refuse(p, reason, now)
	default: // REJECTED or REFUNDED, and one more payment
		r.refuse(p, r.Reason, now)
	}
}

// refuse tells payment to refund p; the version grows even where the status stays, so that the event is newer than the one before.
func (r *Reservation) refuse(p Payment, reason string, now time.Time) {
	r.Version++
	r.emit(PaymentWasRefused, reason, p.ID, now)
}

// Refund settles the refund of a payment. It ends the reservation only if that payment is what confirmed it, and the cause is not one that
// leaves it alone.
func (r *Reservation) Refund(payment uuid.UUID, cause Cause, now time.Time) {
	if cause == CauseCompensation || cause == CauseTransfer || r.Status != Confirmed || r.PaymentID != payment {
		return
	}
	r.Status, r.Reason = Refunded, ReasonRefunded
	r.Version++
	r.emit(WasCancelled, ReasonRefunded, uuid.Nil, now)
}
