package payment

import (
	"context"
	"time"
)

// reasonDisputed is the reason of a refund that is not sent because of a dispute.
const reasonDisputed = "DISPUTED"

// recordDispute records whether the payer disputes the charge, as the provider was asked under p's
// lease.
func (s *Service) recordDispute(ctx context.Context, p Payment, report RefundReport) error {
	open := report.Disputed
	after, err := s.store.Apply(ctx, p.ID, disputed(p.Lease, open, report.lostDispute()))
	if err != nil || p.DisputedAt.IsZero() == after.DisputedAt.IsZero() {
		return err
	}
	s.opts.Published()
	s.log.WarnContext(ctx, "the dispute of a payment has begun or ended", "payment_id", p.ID, "order_id", p.OrderID, "disputed", open)
	return nil
}

// disputed records a dispute, or its end, unless a later webhook has taken a lease: then the answer
// may be older than the webhook, and the provider is asked again. The end of one that was lost is
// not published: tickets that are still valid, though the bank took the money, stay marked.
func disputed(lease int64, open, lost bool) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Lease != lease || p.DisputedAt.IsZero() != open {
			return nil, nil //nolint:nilnil // somebody asks again, or it is known
		}
		note, event := "the payer disputes the charge", EventDisputed
		if !open {
			note, event = "the dispute is decided", EventDisputeClosed
		}
		c := p.withMoney(0, 0, 0, note)
		c.Disputed = &open
		if p.Captured == p.Amount && (open || !lost) { // of another amount it was never published as paid
			c.Event = event
		}
		return c, nil
	}
}

// unlessDisputed refuses a refund of a disputed charge before it is sent, or one that pays a seller
// whose buyer disputes; otherwise it calls decide. While an earlier call may have made the refund, the provider decides, by the same key.
func unlessDisputed(lease int64, byBuyer bool, decide DecideRefund) DecideRefund {
	return func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		if p.DisputedAt.IsZero() && !byBuyer || !r.DoubtAt.IsZero() {
			return decide(p, r, now)
		}
		return refusedByProvider(lease, RefundAnswer{State: ProviderRefused, Code: reasonDisputed}, 0)(p, r, now)
	}
}
