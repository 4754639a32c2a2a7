package membership

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/purchase"
)

var _ purchase.Purchase = (*Purchase)(nil)

// Purchase is a membership with what else decides about its payments.
type Purchase struct {
	*Membership

	// Others are the user's other memberships of the plan. They are read only when a payment is taken.
	Others []*Membership
	// Name is the plan's. Only FindToPay reads it.
	Name string
}

func (p *Purchase) Rules() purchase.Rules { return purchase.Rules{ForgetsCharges: true} }

func (p *Purchase) ToPay() *purchase.Payable {
	return &purchase.Payable{
		Type: purchase.Membership, ID: p.ID, UserID: p.UserID, Amount: p.Price, Currency: p.Currency, ExpiresAt: p.Until, Description: p.Name,
	}
}

func (p *Purchase) Payable(user string, _ uuid.UUID, now time.Time) error {
	switch {
	case p.UserID != user:
		return purchase.ErrReferenceNotFound
	case p.Paid():
		return purchase.ErrAlreadyPaid
	case p.Status == Cancelled || p.Due(now):
		return purchase.ErrHoldExpired
	default:
		return nil
	}
}

func (p *Purchase) Unpaid() bool           { return p.Status == Pending }
func (p *Purchase) Paid() bool             { return p.Status.Paid() }
func (p *Purchase) Claimed(purchase.Claim) { p.Version++ }

// Refusal applies CheckAhead again, as the member is locked.
func (p *Purchase) Refusal(_ purchase.Payment, now time.Time) string {
	if p.Status == Cancelled {
		return purchase.ReasonHoldExpired
	}
	if err := CheckAhead(p.Price, p.Others, now); err != nil {
		return errs.From(err).Reason
	}
	return ""
}

// Accept activates the membership. It begins when the last one of the user's others ends, or now if
// there is none.
func (p *Purchase) Accept(paid purchase.Payment, now time.Time) {
	start := now
	for _, o := range p.Others {
		if o.lasts() {
			start = latest(start, o.EndsAt)
		}
	}
	p.Status, p.PaymentID, p.ActivatedAt = Active, paid.ID, now
	p.begin(start)
	p.emit(EventActivated, "", paid.ID, now)
}

func (p *Purchase) Reject(paid purchase.Payment, reason string, now time.Time) {
	p.Version++
	p.emit(EventRejected, reason, paid.ID, now)
}
