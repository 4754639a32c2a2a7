package payment

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// reasonDisputed is the reason of a refund that is not sent because the payer disputes the charge.
const reasonDisputed = "DISPUTED"

// recordDispute records whether the payer disputes the charge, as a report under p.Lease says.
func (s *Service) recordDispute(ctx context.Context, p Payment, report RefundReport) error {
	open := report.Disputed
	after, err := s.store.Apply(ctx, p.ID, disputed(p.Lease, open, report.lostDispute(), report.EvidenceDue))
	if err != nil || p.DisputedAt.IsZero() == after.DisputedAt.IsZero() {
		return err
	}
	s.opts.Published()
	s.log.WarnContext(ctx, "the dispute of a payment has begun or ended", "payment_id", p.ID, "order_id", p.OrderID, "disputed", open)
	return nil
}

// disputed records the start or the end of a dispute, and until when evidence is taken. If the payment has a later lease, a webhook
// came after the report: nothing changes, and the provider is asked again. The end of a lost
// dispute is not published, so that the tickets which are still valid stay marked as disputed.
func disputed(lease int64, open, lost bool, due time.Time) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		known := p.DisputedAt.IsZero() != open
		if p.Lease != lease || known && p.EvidenceDue.Equal(due) {
			return nil, nil //nolint:nilnil // the provider is asked again, or this is recorded already
		}
		if known {
			c := p.withMoney(0, 0, 0, "")
			c.Disputed, c.EvidenceDue = &open, due
			return c, nil
		}
		note, event := "the payer disputes the charge", EventDisputed
		if !open {
			note, event = "the dispute is decided", EventDisputeClosed
		}
		c := p.withMoney(0, 0, 0, note)
		c.Disputed, c.EvidenceDue = &open, due
		if p.Captured == p.Amount && (open || !lost) { // a wrong amount was never published as paid
			c.Event = event
		}
		return c, nil
	}
}

// unlessDisputed refuses a refund of a disputed charge, and (byBuyer) one that pays a seller whose
// buyer disputes. Otherwise it calls decide. It also calls decide if an earlier call may have made
// the refund, since a repeated call under the same key then returns that refund.
func unlessDisputed(lease int64, byBuyer bool, decide DecideRefund) DecideRefund {
	return func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		if p.DisputedAt.IsZero() && !byBuyer || !r.DoubtAt.IsZero() {
			return decide(p, r, now)
		}
		return refusedByProvider(lease, RefundAnswer{State: ProviderRefused, Code: reasonDisputed}, RefundReport{Disputed: true})(p, r, now)
	}
}

// ListDisputes returns the payments that are disputed or (warned) of which a card's issuer warns, and
// which are neither disputed nor refunded; newest first. It also returns the value of before for the
// next page (zero: there is none).
func (s *Service) ListDisputes(ctx context.Context, warned bool, limit int, before uuid.UUID) ([]Payment, uuid.UUID, error) {
	list, err := s.store.ListDisputes(ctx, warned, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].ID, nil
}
