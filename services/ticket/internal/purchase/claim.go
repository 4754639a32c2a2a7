package purchase

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
)

const (
	// PayWithin is the time that a payment may take if it asks for no other.
	PayWithin = 10 * time.Minute
	// RetryWithin is the least time that is left to pay after a payment that was not taken.
	RetryWithin = 3 * time.Minute
	// chargeWithin is the part of the longest extension that a payment page leaves for the charge after it.
	chargeWithin = 4 * time.Minute
	// ExtendTo is the time that a payment has left after an extension. One comes every minute.
	ExtendTo = 3 * time.Minute
)

// Claim is the time in which a purchase must be paid, and the payment that uses it.
type Claim struct {
	// PaymentID is the payment that is under way, has paid, or was rejected; zero: none.
	PaymentID uuid.UUID
	// Until is the end of the time to pay. OriginalEnd was its end before payments extended it.
	Until, OriginalEnd time.Time
	// Opens counts the payment pages that were opened, Declines the payments that failed (Failure).
	Opens, Declines int
	// Charging: the payment under way may have been charged. While it is false only a page is open,
	// and the user may give the purchase up.
	Charging bool
	// Begun are all payments that have begun. Only these are settled.
	Begun []uuid.UUID
}

// NewClaim returns the claim of a purchase that must be paid until a time.
func NewClaim(until time.Time) Claim { return Claim{Until: until, OriginalEnd: until} }

func (c *Claim) claim() *Claim { return c } //nolint:unused // makes types that embed a Claim a Purchase

// Over reports whether the time to pay is over.
func (c *Claim) Over(now time.Time) bool { return !now.Before(c.Until) }

// isBegun reports whether a payment is one of those that have begun.
func (c *Claim) isBegun(payment uuid.UUID) bool {
	return payment != uuid.Nil && (payment == c.PaymentID || slices.Contains(c.Begun, payment))
}

// begin gives the time until end to a payment, which opens a page or may be charged now.
func (c *Claim) begin(payment uuid.UUID, opens bool, end time.Time) {
	if opens {
		c.Opens++
	}
	if !slices.Contains(c.Begun, payment) {
		c.Begun = append(c.Begun, payment)
	}
	c.PaymentID, c.Until, c.Charging = payment, end, !opens
}

// fail counts a payment that was not taken. A page that was not opened does not count as one.
func (c *Claim) fail(why Failure) {
	if why.Declined || why.Unopened {
		c.Declines++
	}
	if why.Unopened {
		c.Opens = max(0, c.Opens-1)
	}
}

// release ends the payment under way. The time to pay is then the original one, or RetryWithin if
// that ends later, but leaves PayWithin before the longest extension.
func (c *Claim) release(now time.Time, maxExtension time.Duration) {
	last := c.OriginalEnd.Add(maxExtension - PayWithin)
	c.PaymentID, c.Charging = uuid.Nil, false
	c.Until = earliest(latest(c.OriginalEnd, now.Add(RetryWithin)), last)
}

// PayTime is the time that a payment asks for; the zero value asks for exactly PayWithin.
type PayTime struct {
	// Within is the time, from now on, that the payment asks for; AtLeast is the least it accepts.
	Within, AtLeast time.Duration
	// Opens: the payment only opens the provider's page, and charges nothing yet.
	Opens bool
}

// end returns the end of the time to pay that a payment gets: not before the present end, and at
// most maxExtension after the original end. It fails with ErrHoldExpired if AtLeast is not left.
func (t PayTime) end(c *Claim, now time.Time, maxExtension time.Duration) (time.Time, error) {
	if t.Within == 0 {
		t.Within, t.AtLeast = PayWithin, PayWithin
	}
	last := c.OriginalEnd.Add(maxExtension)
	if t.Opens {
		last = last.Add(-chargeWithin)
	}
	end := latest(c.Until, earliest(now.Add(t.Within), last))
	if end.Before(now.Add(t.AtLeast)) {
		return time.Time{}, ErrHoldExpired
	}
	return end, nil
}

// Pages counts payment pages that were opened for unpaid purchases within event.ForgottenAfter, and
// payments that were declined.
type Pages struct{ Opened, Declined int }

// left reports whether the user may open another page.
func (p Pages) left() bool { return p.Opened-min(p.Declined, event.Forgiven) < event.MaxPages }

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
