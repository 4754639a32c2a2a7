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

// The causes of refunds. The first two do not change the reservation: a compensation refunds a
// rejected payment, and a transfer pays a part of the price to the seller.
const (
	CauseCompensation   Cause = "COMPENSATION"
	CauseTransfer       Cause = "TRANSFER"
	CauseUser           Cause = "USER"
	CauseOperator       Cause = "OPERATOR"
	CauseEventCancelled Cause = "EVENT_CANCELLED"
)

// Paid settles a payment that the provider has taken: it either confirms the reservation, or is
// rejected by an event and then refunded. A payment is accepted while the reservation waits for
// another one, which is rejected if it is taken later. A payment that is already refunded is
// rejected too, since the refund may have been partial. Repeating it changes nothing.
func (r *Reservation) Paid(p Payment, now time.Time) {
	r.Expire(now)
	switch {
	case r.PaymentID == p.ID && !r.Status.Unpaid(): // settled already: confirmed, rejected or refunded
	case p.AlreadyRefunded:
		r.rejectPayment(p, ReasonRefunded, now)
	case r.Status == Confirmed:
		r.rejectPayment(p, ReasonAlreadyPaid, now)
	case r.Amount != p.Amount || r.Currency != p.Currency:
		r.rejectPayment(p, ReasonAmountMismatch, now)
	case r.Status.Unpaid():
		r.Status, r.PaymentID = Confirmed, p.ID
		r.Version++
		r.emit(EventConfirmed, "", p.ID, now)
	case r.Status == Expired, r.Status == Cancelled:
		reason := ReasonHoldExpired
		if r.Status == Cancelled {
			reason = ReasonCancelled
		}
		r.Status, r.PaymentID, r.Reason = Rejected, p.ID, reason
		r.rejectPayment(p, reason, now)
	default: // REJECTED or REFUNDED, and one more payment
		r.rejectPayment(p, r.Reason, now)
	}
}

// rejectPayment publishes that p must be refunded. The version grows even when the status does not
// change, so that the event is newer than the one before.
func (r *Reservation) rejectPayment(p Payment, reason string, now time.Time) {
	r.Version++
	r.emit(EventPaymentRejected, reason, p.ID, now)
}

// Refund settles the refund of a payment. It ends the reservation only if that payment confirmed it
// and the cause is neither compensation nor transfer.
func (r *Reservation) Refund(payment uuid.UUID, cause Cause, now time.Time) {
	if cause == CauseCompensation || cause == CauseTransfer || r.Status != Confirmed || r.PaymentID != payment {
		return
	}
	r.Status, r.Reason = Refunded, ReasonRefunded
	r.Version++
	r.emit(EventCancelled, ReasonRefunded, uuid.Nil, now)
}
