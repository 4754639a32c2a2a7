package purchase

import (
	"time"

	"github.com/google/uuid"
)

// Begin lets a payment use the time to pay of a purchase that can be paid, and extends this time by
// at most maxExtension in all; it never shortens it. A repeated call changes nothing, except just
// before the charge: then the time is extended again, since it must last during the charge. Errors:
// those of Purchase.Payable; ErrPaymentInProgress while another payment is under way; ErrHoldExpired
// if less is left than the payment accepts; ErrNotPayable for a page after the first event.MaxPages,
// without those that are forgiven.
func Begin(s Purchase, user string, payment uuid.UUID, t PayTime, now time.Time, maxExtension time.Duration) error {
	if err := s.Payable(user, payment, now); err != nil {
		return err
	}
	c, rules := s.claim(), s.Rules()
	renews := c.PaymentID != uuid.Nil
	switch {
	case renews && c.PaymentID != payment:
		return ErrPaymentInProgress
	case renews && (t.Opens || t.Within == 0 && (c.Charging || rules.ForgetsCharges)):
		return nil
	case t.Opens && !(Pages{Opened: c.Opens + rules.OtherPages.Opened, Declined: c.Declines + rules.OtherPages.Declined}).left():
		return ErrNotPayable
	}
	end, err := t.end(c, now, maxExtension)
	if err != nil {
		return err
	}
	if renews && c.Charging && end.Equal(c.Until) && rules.KeepsEnd {
		return nil
	}
	before := *c
	c.begin(payment, t.Opens, end)
	c.Charging = c.Charging && !rules.ForgetsCharges
	s.Claimed(before)
	return nil
}

// Extend gives a payment under way more time, by at most maxExtension in all. A payment whose time
// is over gets none, since another user may have what it pays for by now.
func Extend(s Purchase, payment uuid.UUID, now time.Time, maxExtension time.Duration) {
	c := s.claim()
	end := earliest(now.Add(ExtendTo), c.OriginalEnd.Add(maxExtension))
	if !isUnderWay(s, payment) || c.Over(now) || !end.After(c.Until) {
		return
	}
	before := *c
	c.Until = end
	s.Claimed(before)
}

// Abort undoes Begin for a payment that was definitely not taken: the user may pay again for a while
// (Claim.release). A purchase without any time left ends at once. Nothing happens if the payment is
// not under way, or its time is over: what has ended is not restored, since its user may have
// bought another by now.
func Abort(s Purchase, payment uuid.UUID, why Failure, now time.Time, maxExtension time.Duration) {
	c, rules := s.claim(), s.Rules()
	if !isUnderWay(s, payment) {
		return
	}
	if !c.Over(now) {
		before := *c
		if rules.CountsFailures {
			c.fail(why)
		}
		c.release(now, maxExtension)
		s.Claimed(before)
	} else if !rules.EndsWhenGivenUpLate {
		return
	}
	s.Expire(now)
}

// isUnderWay reports whether a payment is under way for an unpaid purchase.
func isUnderWay(s Purchase, payment uuid.UUID) bool {
	known := payment != uuid.Nil || !s.Rules().NeedsPayment
	return s.Unpaid() && s.claim().PaymentID == payment && known
}

// HasBegun reports whether a payment was begun for a purchase, by its user and with its amount. The
// payment service begins each payment before it charges it, and never changes it.
func HasBegun(s Purchase, p Payment) bool {
	c, due := s.claim(), s.ToPay()
	byUser := p.UserID == due.UserID || p.ID != c.PaymentID && s.Rules().ForgetsPayers
	return c.isBegun(p.ID) && byUser && p.Amount == due.Amount && p.Currency == due.Currency
}

// Settle applies a payment that the provider has taken, and that was begun. It makes the purchase
// paid, or rejects the payment, which is then refunded and no longer under way, and returns the
// reason. While another payment is under way this one is accepted, and the other one is rejected if
// it is taken later. Settle is idempotent.
func Settle(s Purchase, p Payment, now time.Time, maxExtension time.Duration) (rejected string) {
	if !s.Rules().AcceptsLate {
		s.Expire(now)
	}
	if s.claim().PaymentID == p.ID && !s.Unpaid() { // applied before: it has paid, or was rejected
		return ""
	}
	switch {
	case p.EndedWhy != "":
		rejected = p.EndedWhy
	case s.Paid():
		rejected = ReasonAlreadyPaid
	default:
		rejected = s.Refusal(p, now)
	}
	if rejected == "" {
		s.Accept(p, now)
		return ""
	}
	s.Reject(p, rejected, now)
	Abort(s, p.ID, Failure{Declined: true}, now, maxExtension)
	return rejected
}
