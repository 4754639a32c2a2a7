package reconcile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"urr.guru/services/payment/internal/payment"
)

// ProviderOrder is what a provider's account has about one order.
type ProviderOrder struct {
	Provider string
	OrderID  string
	Entries  []payment.LedgerEntry
	// Complete says that Entries has all entries of the order. Otherwise other days may have more.
	Complete bool
}

// PaymentWithRefunds is a payment with its refunds, in any order. REJECTED refunds may be missing.
type PaymentWithRefunds struct {
	Payment payment.Payment
	Refunds []payment.Refund
}

// Compare returns the differences of one order. here is nil if no payment has this order id.
func Compare(there ProviderOrder, here *PaymentWithRefunds) []Difference {
	c := comparer{there: there}
	if here == nil {
		c.reportMissingHere()
		return c.found
	}
	c.here, c.p = here, here.Payment
	c.compareCaptures()
	c.compareRefunds()
	return c.found
}

// comparer collects the differences of one order.
type comparer struct {
	there ProviderOrder
	here  *PaymentWithRefunds
	p     payment.Payment
	found []Difference
}

// add adds a difference about the provider's entry e; e is zero if the provider has none.
func (c *comparer) add(kind Kind, e payment.LedgerEntry, ours, theirs string) *Difference {
	c.found = append(c.found, Difference{
		Kind: kind, Provider: c.there.Provider, OrderID: c.there.OrderID, EntryID: e.ID, PaymentID: c.p.ID, Ours: ours, Theirs: theirs,
		Amount: e.Amount, Currency: e.Currency,
	})
	return &c.found[len(c.found)-1]
}

func (c *comparer) reportMissingHere() {
	if !payment.IsOrderID(c.there.OrderID) {
		return
	}
	for _, e := range c.there.Entries {
		switch {
		case e.Kind == payment.LedgerCapture:
			c.add(CaptureUnknown, e, "no payment", captured(e.Amount, e.Currency))
		case e.State != payment.ProviderFailed:
			c.add(RefundUnknown, e, "no payment", describe(e))
		}
	}
}

func (c *comparer) compareCaptures() {
	hasCapture := false
	ours := ourCapture(c.p)
	for _, e := range c.there.Entries {
		if e.Kind != payment.LedgerCapture {
			continue
		}
		theirs := captured(e.Amount, e.Currency)
		switch {
		case c.p.Captured == 0:
			c.add(CaptureOnlyThere, e, ours, theirs).Moves = c.p.Status.Unsettled()
		case c.p.ChargeID != "" && e.ID != c.p.ChargeID:
			c.add(CaptureTwice, e, fmt.Sprintf("%s by %s", ours, c.p.ChargeID), theirs)
			continue
		case e.Amount != c.p.Captured || e.Currency != "" && e.Currency != c.p.Currency:
			c.add(CaptureAmount, e, ours, theirs)
		}
		hasCapture = true
	}
	if c.there.Complete && c.p.Captured > 0 && !hasCapture {
		c.add(CaptureOnlyHere, payment.LedgerEntry{ID: c.p.ChargeID}, ours, "no capture")
	}
}

func (c *comparer) compareRefunds() {
	matched := map[uuid.UUID]bool{}
	var sum int64
	for _, e := range c.there.Entries {
		if e.Kind != payment.LedgerRefund {
			continue
		}
		if e.State != payment.ProviderFailed {
			sum += e.Amount
		}
		if r := c.refundOf(e); r != nil {
			matched[r.ID] = true
		}
		c.compareRefund(e)
	}
	var ours int64
	for _, r := range c.here.Refunds {
		if !refundedHere(r) {
			continue
		}
		ours += r.Send
		if c.there.Complete && r.Send > 0 && !matched[r.ID] {
			c.add(RefundOnlyHere, payment.LedgerEntry{ID: cmp.Or(r.ProviderID, r.ID.String())}, ourRefund(r), "no refund")
		}
	}
	if !c.there.Complete {
		sum = ours // refunds of other days are not listed, so sums cannot be compared
	}
	if len(c.found) == 0 && sum != c.p.Refunded {
		c.add(RefundSum, payment.LedgerEntry{Amount: sum}, fmt.Sprintf("refunded %d", c.p.Refunded), fmt.Sprintf("refunded %d", sum))
	}
}

// refundOf returns the stored refund whose ProviderID is the id of the entry e; nil if there is
// none.
func (c *comparer) refundOf(e payment.LedgerEntry) *payment.Refund {
	i := slices.IndexFunc(c.here.Refunds, func(r payment.Refund) bool { return r.ProviderID == e.ID })
	if i < 0 {
		return nil
	}
	return &c.here.Refunds[i]
}

func (c *comparer) compareRefund(e payment.LedgerEntry) {
	failed := e.State == payment.ProviderFailed
	if r := c.refundOf(e); r != nil {
		switch {
		case refundedHere(*r) == failed: // one that failed there must be HELD, PENDING or FAILED here
			c.add(RefundState, e, ourRefund(*r), describe(e))
		case !failed && e.Amount != r.Send:
			c.add(RefundAmount, e, ourRefund(*r), describe(e))
		}
		return
	}
	if failed {
		return // an earlier attempt, or a person's attempt that failed
	}
	i := slices.IndexFunc(c.here.Refunds, func(r payment.Refund) bool { return r.ID == e.RefundID })
	if i < 0 {
		c.add(RefundUnknown, e, "no refund", describe(e))
		return
	}
	switch r := c.here.Refunds[i]; {
	case r.ProviderID != "":
		c.add(RefundTwice, e, fmt.Sprintf("%s by %s", ourRefund(r), r.ProviderID), describe(e))
	default:
		c.add(RefundState, e, ourRefund(r), describe(e)).Moves = r.Status == payment.RefundRequested || r.Status == payment.RefundPending
	}
}

// refundedHere reports whether a refund counts here as accepted or made by the provider. A refund
// by hand was made before it was stored, and may have failed since.
func refundedHere(r payment.Refund) bool {
	return r.Status == payment.RefundAccepted || r.Status == payment.RefundDone ||
		r.Cause == payment.ByHand && r.Status != payment.RefundFailed
}

func ourCapture(p payment.Payment) string {
	return fmt.Sprintf("%s, %s", p.Status, captured(p.Captured, p.Currency))
}

func captured(amount int64, currency string) string {
	if amount == 0 {
		return "nothing captured"
	}
	return fmt.Sprintf("captured %d %s", amount, currency)
}

func ourRefund(r payment.Refund) string {
	return fmt.Sprintf("refund %s (%s) %s, %d", r.ID, r.Cause, r.Status, r.Send)
}

// describe returns a text about the refund e at the provider.
func describe(e payment.LedgerEntry) string {
	state := map[payment.ProviderState]string{
		payment.ProviderAccepted: "accepted", payment.ProviderDone: "done", payment.ProviderFailed: "failed",
	}[e.State]
	by := "without our id"
	if e.RefundID != uuid.Nil {
		by = "of " + e.RefundID.String()
	}
	return fmt.Sprintf("refund %s, %s, %d", by, state, e.Amount)
}
