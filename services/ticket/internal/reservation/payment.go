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
	// AlreadyRefunded says that a later event has reported a refund of this payment.
	AlreadyRefunded bool
}

// Cause says why a payment was refunded.
type Cause string

// The causes of refunds. The first two do not change the reservation: a compensation returns a
// rejected payment, and a transfer pays a part of the price to the seller.
const (
	CauseCompensation   Cause = "COMPENSATION"
	CauseTransfer       Cause = "TRANSFER"
	CauseUser           Cause = "USER"
	CauseOperator       Cause = "OPERATOR"
	CauseEventCancelled Cause = "EVENT_CANCELLED"
)

// Settle applies a payment that the provider has taken. It confirms the reservation or rejects the
// payment, which is then refunded. While another payment is under way this one is accepted, and the
// other one is rejected if it is taken later. A payment that was refunded is rejected, since the
// refund may have been partial. Settle is idempotent.
func (r *Reservation) Settle(p Payment, now time.Time) {
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
	default: // another payment of a REJECTED or REFUNDED reservation
		r.rejectPayment(p, r.Reason, now)
	}
}

// rejectPayment emits the event on which the payment service refunds p. The version grows even when
// the status stays, so that the event is newer than the one before.
func (r *Reservation) rejectPayment(p Payment, reason string, now time.Time) {
	r.Version++
	r.emit(EventPaymentRejected, reason, p.ID, now)
}

// Refund applies the refund of a payment. The reservation ends only if that payment confirmed it
// and the cause is neither compensation nor transfer.
func (r *Reservation) Refund(payment uuid.UUID, cause Cause, now time.Time) {
	if cause == CauseCompensation || cause == CauseTransfer || r.Status != Confirmed || r.PaymentID != payment {
		return
	}
	r.Status, r.Reason = Refunded, ReasonRefunded
	r.Version++
	r.emit(EventCancelled, ReasonRefunded, uuid.Nil, now)
}
