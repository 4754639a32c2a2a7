package transfer

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/ticket"
)

var _ purchase.Purchase = (*Purchase)(nil)

// Purchase is a transfer for money, with its ticket and what else decides about its payments.
type Purchase struct {
	*Transfer

	Ticket *ticket.Ticket
	Terms  Terms
	// Issue stores the new ticket of the buyer who has paid.
	Issue func(ticket.Ticket)
	// EventTitle and StatementSuffix are those of the event. Only FindToPay reads them.
	EventTitle, StatementSuffix string
}

// Rules: the offer waits for the sweeper at the end of the time to pay, since the seller's ticket has
// no other use until then, and then for another buyer.
func (p *Purchase) Rules() purchase.Rules {
	return purchase.Rules{EndsWhenGivenUpLate: true, AcceptsLate: true, ForgetsPayers: true}
}

func (p *Purchase) ToPay() *purchase.Payable {
	return &purchase.Payable{
		Type: purchase.Transfer, ID: p.ID, UserID: p.Buyer, EventID: p.EventID, Amount: p.Price, Currency: p.Currency, ExpiresAt: p.Until,
		Description: p.EventTitle, StatementSuffix: p.StatementSuffix,
	}
}

// Payable returns nil while this buyer can pay: the offer is accepted, its time is not over, and the
// ticket is still the seller's. A payment that may have been charged goes on. Errors: ErrBlocked,
// event.ErrCancelled, and those of package purchase.
func (p *Purchase) Payable(buyer string, _ uuid.UUID, now time.Time) error {
	switch {
	case p.Buyer != buyer:
		return purchase.ErrReferenceNotFound
	case p.Status == Completed:
		return purchase.ErrAlreadyPaid
	case !p.Unpaid():
		return purchase.ErrNotPayable
	case p.Due(now):
		return purchase.ErrHoldExpired
	case !p.Charging && p.Terms.BuyerBlocked:
		return ErrBlocked
	case !p.Charging && !p.Terms.State.TakesPlace():
		return event.ErrCancelled
	case !p.Charging && !p.isSellers(now):
		return purchase.ErrNotPayable
	default:
		return nil
	}
}

// isSellers reports whether the seller's ticket is valid, and no door can have it on its list.
func (p *Purchase) isSellers(now time.Time) bool {
	return p.Ticket.Status == ticket.Valid && now.Before(p.Terms.ClosesAt)
}

func (p *Purchase) Unpaid() bool         { return p.Status == Awaiting }
func (p *Purchase) Paid() bool           { return p.Status == Completed }
func (p *Purchase) Expire(now time.Time) { p.Transfer.Expire(p.Ticket, now) }

// Claimed makes the ticket TRANSFERRING when a payment is about to be charged, so that it can be
// neither used nor refunded, and VALID again after that. It stays VALID while only a page is open.
func (p *Purchase) Claimed(before purchase.Claim) {
	switch {
	case p.Charging && !before.Charging:
		p.Ticket.Reserve()
	case before.Charging && !p.Charging:
		p.Ticket.Return()
	}
	p.Version++
}

// Refusal accepts a payment whose buyer could still pay, also after it was given up, but not when
// doors may have the seller's ticket on their lists.
func (p *Purchase) Refusal(paid purchase.Payment, now time.Time) string {
	byBuyer := p.Unpaid() && p.Buyer == paid.UserID
	switch {
	case p.Terms.State == event.Ended:
		return purchase.ReasonEventCancelled
	case byBuyer && p.Charging && p.PaymentID == paid.ID:
		return ""
	case byBuyer && p.isSellers(now): // not while another payment may have been charged
		return ""
	default:
		return purchase.ReasonHoldExpired
	}
}

// Accept passes the ticket on to the buyer.
func (p *Purchase) Accept(paid purchase.Payment, now time.Time) {
	passed := p.complete(p.Ticket, paid.ID, now)
	if paid.WholeOnly {
		passed.OnlyWhole = paid.Amount
	}
	p.Issue(*passed)
}

func (p *Purchase) Reject(paid purchase.Payment, reason string, now time.Time) {
	p.Version++
	p.emit(EventRejected, reason, paid.ID, uuid.Nil, now)
}
