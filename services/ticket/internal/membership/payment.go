package membership

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// Payable returns nil while this user can pay for it. Errors: reservation.ErrReferenceNotFound for
// another user's membership, ErrHoldExpired, ErrAlreadyPaid.
func (m *Membership) Payable(user string, now time.Time) error {
	switch {
	case m.UserID != user:
		return reservation.ErrReferenceNotFound
	case m.Status.Paid():
		return reservation.ErrAlreadyPaid
	case m.Status == Cancelled || m.Due(now):
		return reservation.ErrHoldExpired
	default:
		return nil
	}
}

// ClaimFor reserves time for a payment, as Reservation.ClaimFor does. A repeated call changes
// nothing, except just before the charge: it then extends the time to pay again.
func (m *Membership) ClaimFor(user string, payment uuid.UUID, now time.Time, maxExtension time.Duration, t reservation.PayTime) error {
	if err := m.Payable(user, now); err != nil {
		return err
	}
	renews := m.PaymentID != uuid.Nil
	switch {
	case renews && m.PaymentID != payment:
		return reservation.ErrPaymentInProgress
	case renews && (t.Opens || t.Within == 0):
		return nil
	case t.Opens && m.Opens >= event.MaxPages:
		return reservation.ErrNotPayable
	}
	end, err := t.End(m.PayUntil, m.PayEndsAt, now, maxExtension)
	if err != nil {
		return err
	}
	if t.Opens {
		m.Opens++
	}
	m.PaymentID, m.PayUntil, m.Begun = payment, end, reservation.WithBegun(m.Begun, payment)
	m.Version++
	return nil
}

// Extend gives a payment under way more time, up to maxExtension in all, unless its time is over.
func (m *Membership) Extend(payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	if m.Status != Pending || m.PaymentID != payment || m.Due(now) {
		return
	}
	if end := reservation.ExtendedTo(now, m.PayEndsAt, maxExtension); end.After(m.PayUntil) {
		m.PayUntil = end
		m.Version++
	}
}

// AbortPayment undoes ClaimFor for a payment that was definitely not taken. The user may try again,
// as after Reservation.AbortPayment.
func (m *Membership) AbortPayment(payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	if m.Status != Pending || m.PaymentID != payment || m.Due(now) {
		return
	}
	m.PaymentID, m.PayUntil = uuid.Nil, reservation.RetryUntil(m.PayEndsAt, now, maxExtension)
	m.Version++
	m.Expire(now)
}

// HasBegun reports whether the payment was begun for this membership, by its user.
func (m *Membership) HasBegun(p reservation.Payment) bool {
	return p.UserID == m.UserID && p.Begun(m.Begun, m.PaymentID, m.Price, m.Currency)
}

// Settle applies a payment that the provider has taken, and that was begun: it activates the membership, or it rejects
// the payment, which is then refunded, and returns the reason; the caller must then call
// AbortPayment too. It accepts the payment even while another one is under way. Settle is
// idempotent. others are the user's other memberships of the plan: this one begins when the last of
// them ends, or now if there is none. CheckAhead is applied again, as the member is locked.
func (m *Membership) Settle(p reservation.Payment, others []*Membership, now time.Time) (rejected string) {
	m.Expire(now)
	switch {
	case m.Status.Paid() && m.PaymentID == p.ID:
		return ""
	case p.EndedWhy != "":
		return m.reject(p, p.EndedWhy, now)
	case m.Status.Paid():
		return m.reject(p, reservation.ReasonAlreadyPaid, now)
	case m.Status == Cancelled:
		return m.reject(p, reservation.ReasonHoldExpired, now)
	}
	if err := CheckAhead(m.Price, others, now); err != nil {
		return m.reject(p, errs.From(err).Reason, now)
	}
	start := now
	for _, o := range others {
		if o.lasts() {
			start = latest(start, o.EndsAt)
		}
	}
	m.Status, m.PaymentID, m.ActivatedAt = Active, p.ID, now
	m.begin(start)
	m.emit(EventActivated, "", p.ID, now)
	return ""
}

// reject adds the Kafka event that makes the payment service refund p.
func (m *Membership) reject(p reservation.Payment, reason string, now time.Time) string {
	m.Version++
	m.emit(EventRejected, reason, p.ID, now)
	return reason
}
