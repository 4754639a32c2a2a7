package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
)

// reconcileRefunds asks the provider about the refunds of a payment, records their new states, and
// stores those that a person has made there, or takes them back if they have failed. A refund is
// recognised by its id, never by a difference between sums.
func (s *Service) reconcileRefunds(ctx context.Context, p Payment) (RefundReport, error) {
	askCtx, cancel := context.WithTimeout(ctx, s.caps(p).CallTime)
	defer cancel()
	report, err := s.provider(p).AskRefunds(askCtx, p)
	if err != nil {
		return report, fmt.Errorf("ask for refunds of order %s: %w", p.OrderID, err)
	}
	found := ByHandRefunds{Whole: report.RefundableAmount() <= 0}
	for _, x := range report.Refunds {
		ours, err := s.recordOurs(ctx, p, x)
		if err != nil {
			return report, err
		}
		switch {
		case ours:
		case x.State == ProviderFailed:
			err = s.takeBack(ctx, p, x)
		default:
			found.Refunds = append(found.Refunds, x)
		}
		if errors.Is(err, errByHandRequested) || errors.Is(err, errCallUnderWay) {
			report.waits, err = err, s.hintAgain(ctx, p)
		}
		if err != nil {
			return report, err
		}
	}
	if p.Captured > 0 && report.Captured != p.Captured {
		s.log.ErrorContext(ctx, "the provider has another amount than was captured", "payment_id", p.ID, "order_id", p.OrderID,
			"captured", p.Captured, "at_provider", report.Captured)
	}
	if len(found.Refunds) == 0 {
		return report, nil
	}
	adopted, err := s.store.Adopt(ctx, p.ID, found)
	if err != nil || adopted == 0 {
		return report, err
	}
	failpoint.Hit("payment.refund.adopted")
	s.opts.Observe.manualRefund(found.Whole)
	s.log.WarnContext(ctx, "payment refunded by hand at the provider", "payment_id", p.ID, "order_id", p.OrderID, "amount", adopted,
		"whole", found.Whole)
	s.wakeSweeper(Claims)
	return report, nil
}

// hintAgain makes the sweeper ask again about the refunds of a payment, unless it does so anyway.
func (s *Service) hintAgain(ctx context.Context, p Payment) error {
	if p.Hinted {
		return nil
	}
	return s.store.Hint(ctx, p.OrderID, true)
}

// recordOurs records the provider's state of x, if x is a refund that this service has asked for.
// ours is false, and nothing is recorded, if x has no refund id of this service.
func (s *Service) recordOurs(ctx context.Context, p Payment, x ProviderRefund) (ours bool, err error) {
	if x.RefundID == uuid.Nil {
		return false, nil
	}
	after, changed, err := s.store.ApplyRefund(ctx, x.RefundID, made(x))
	switch {
	case errors.Is(err, ErrNotFound): // a refund's row is committed before its call
		return false, nil
	case err != nil:
		return true, fmt.Errorf("record refund %s: %w", x.RefundID, err)
	}
	ended := after.Status == RefundRefused || after.Status == RefundRejected || after.Status == RefundResolved
	switch {
	case changed && after.Status == RefundHeld:
		s.log.ErrorContext(ctx, "refund failed at the provider, held for a person", "refund_id", after.ID, "payment_id", p.ID,
			"order_id", p.OrderID, "cause", after.Cause, "amount", after.Send)
	case changed:
		s.opts.Published()
	case ended && x.State != ProviderFailed:
		s.log.ErrorContext(ctx, "the provider has made a refund that had ended here", "refund_id", after.ID, "payment_id", p.ID,
			"status", after.Status, "amount", x.Amount)
	}
	return true, nil
}

// followRefundHint asks the provider about refunds and a dispute after a webhook, and records that
// it has asked. The amount that a lost dispute took is recorded before the dispute's end, which
// lets refunds be sent again.
func (s *Service) followRefundHint(ctx context.Context, p Payment) error {
	report, err := s.reconcileRefunds(ctx, p)
	if err == nil {
		err = s.recordDispute(ctx, p, report)
	}
	if err == nil {
		err = report.waits
	}
	if err != nil {
		return s.retryHint(ctx, p, err)
	}
	after, err := s.store.Get(ctx, p.ID)
	if err != nil {
		return err
	}
	after.Lease = p.Lease // if a later webhook changed the lease, the provider is asked again
	switch {
	case after.AbortDue:
		return s.store.Reschedule(ctx, after, 0)
	case report.movesByHand(): // its failure may have no webhook
		return s.store.Reschedule(ctx, after, maxAcceptedPoll)
	default:
		return s.store.Reschedule(ctx, after, Never)
	}
}
