package transfer

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// Payable returns nil while this buyer can pay: the offer is accepted, its time is not over, and
// the ticket is still the seller's. Errors: event.ErrCancelled; ErrReferenceNotFound,
// ErrAlreadyPaid, ErrNotPayable, ErrHoldExpired of package reservation.
func (t *Transfer) Payable(tk *ticket.Ticket, buyer string, terms Terms) error {
	switch {
	case t.Buyer != buyer:
		return reservation.ErrReferenceNotFound
	case t.Status == Completed:
		return reservation.ErrAlreadyPaid
	case t.Status != Awaiting:
		return reservation.ErrNotPayable
	case t.Due(terms.Now):
		return reservation.ErrHoldExpired
	case !t.Charging && terms.BuyerBlocked:
		return ErrBlocked
	case !t.Charging && !terms.State.TakesPlace():
		return event.ErrCancelled
	case !t.Charging && (tk.Status != ticket.Valid || !terms.Now.Before(terms.ClosesAt)):
		return reservation.ErrNotPayable
	default:
		return nil
	}
}

// ClaimFor reserves time for a payment, as Reservation.ClaimFor does. When the payment is about to
// be charged, the ticket becomes TRANSFERRING, so that it can be neither used nor refunded. While
// only the payment page is open, it stays VALID.
func (t *Transfer) ClaimFor(
	tk *ticket.Ticket, buyer string, payment uuid.UUID, terms Terms, maxExtension time.Duration, pt reservation.PayTime,
) error {
	if err := t.Payable(tk, buyer, terms); err != nil {
		return err
	}
	renews := t.PaymentID != uuid.Nil
	switch {
	case renews && t.PaymentID != payment:
		return reservation.ErrPaymentInProgress
	case renews && (pt.Opens || pt.Within == 0 && t.Charging):
		return nil
	case pt.Opens && t.Opens >= event.MaxPages:
		return reservation.ErrNotPayable
	}
	end, err := pt.End(t.PayUntil, t.PayEndsAt, terms.Now, maxExtension)
	if err != nil {
		return err
	}
	switch {
	case pt.Opens:
		t.Opens++
	case !t.Charging:
		tk.Reserve()
		t.Charging = true
	}
	t.PaymentID, t.PayUntil, t.Begun = payment, end, reservation.WithBegun(t.Begun, payment)
	t.Version++
	return nil
}

// Extend gives a payment under way more time, up to maxExtension in all, unless its time is over.
func (t *Transfer) Extend(payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	if t.Status != Awaiting || t.PaymentID != payment || t.Due(now) {
		return
	}
	if end := reservation.ExtendedTo(now, t.PayEndsAt, maxExtension); end.After(t.PayUntil) {
		t.PayUntil = end
		t.Version++
	}
}

// AbortPayment undoes ClaimFor for a payment that was definitely not taken. The buyer may pay again
// until the original deadline, or for reservation.RetryWithin if that ends later, but never past
// the last moment at which ClaimFor accepts a payment. Then others can accept the offer again.
func (t *Transfer) AbortPayment(tk *ticket.Ticket, payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	if t.Status != Awaiting || t.PaymentID != payment {
		return
	}
	if t.Due(now) {
		t.Expire(tk, now)
		return
	}
	if t.Charging {
		tk.Return()
	}
	t.PaymentID, t.Charging = uuid.Nil, false
	t.PayUntil = reservation.RetryUntil(t.PayEndsAt, now, maxExtension)
	t.Version++
	t.Expire(tk, now)
}

// HasBegun reports whether the payment was begun for this transfer, the present one by its buyer. The
// buyers of earlier ones are not kept: such a payment is given back, whoever made it.
func (t *Transfer) HasBegun(p reservation.Payment) bool {
	return (p.ID != t.PaymentID || p.UserID == t.Buyer) && p.Begun(t.Begun, t.PaymentID, t.Price, t.Currency)
}

// Settle applies a payment that the provider has taken, and that was begun. The ticket passes on and the new one is
// returned, or the payment is rejected and then refunded: the caller must then call AbortPayment
// too. Settle is idempotent. Even after an AbortPayment the payment is accepted if its buyer could
// still pay, but not when doors may have the seller's ticket on their lists.
func (t *Transfer) Settle(tk *ticket.Ticket, p reservation.Payment, terms Terms) (passed *ticket.Ticket, rejected string) {
	if t.Status == Completed && t.PaymentID == p.ID {
		return nil, ""
	}
	reason := t.refusal(tk, p, terms)
	if reason == "" {
		passed = t.complete(tk, p.ID, terms.Now)
		if p.WholeOnly {
			passed.OnlyWhole = p.Amount
		}
		return passed, ""
	}
	t.Version++
	t.emit(EventRejected, reason, p.ID, uuid.Nil, terms.Now)
	return nil, reason
}

// refusal returns the reason why a payment is rejected; empty: it is accepted.
func (t *Transfer) refusal(tk *ticket.Ticket, p reservation.Payment, terms Terms) string {
	byBuyer := t.Status == Awaiting && t.Buyer == p.UserID
	switch {
	case p.EndedWhy != "":
		return p.EndedWhy
	case t.Status == Completed:
		return reservation.ReasonAlreadyPaid
	case terms.State == event.Ended:
		return reservation.ReasonEventCancelled
	case !byBuyer:
		return reservation.ReasonHoldExpired
	case t.Charging && t.PaymentID == p.ID:
		return ""
	case t.Charging, tk.Status != ticket.Valid, !terms.Now.Before(terms.ClosesAt):
		return reservation.ReasonHoldExpired
	default:
		return ""
	}
}
