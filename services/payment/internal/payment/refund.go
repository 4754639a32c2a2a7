package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

const (
	// maxRefundWait is the longest time between two attempts to give money back.
	maxRefundWait = 5 * time.Minute
	// refundAlert is the age at which a refund that is not done is an error in the log; the alert
	// on its age says the same.
	refundAlert = 10 * time.Minute
)

// Group is the consumer group in whose name rejections are processed.
const Group = "payment-service-group"

// Rejection says that what was paid cannot be honoured.
type Rejection struct {
	// EventKey is unique per rejection; a repeated one changes nothing.
	EventKey  string
	PaymentID uuid.UUID
	Reason    string
}

// Compensate has everything that is left of the payment given back. ErrNotFound when there is no
// such payment.
func (s *Service) Compensate(ctx context.Context, r Rejection) error {
	if err := s.store.Compensate(ctx, r.EventKey, r.PaymentID, compensated(newID(), r.Reason)); err != nil {
		return err
	}
	s.hurry()
	return nil
}

// refund makes one attempt to give money back, under the same key as every other attempt.
func (s *Service) refund(ctx context.Context, r Refund) error {
	if r.Amount > 0 {
		pctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
		defer cancel()
		id, err := s.provider.Refund(pctx, r)
		if errors.Is(err, ErrRefundRefused) {
			if done, lerr := s.refusedRefund(ctx, r); done {
				s.saidByHand(ctx, Payment{ID: r.PaymentID, OrderID: r.OrderID}, true)
				id, err = byHandProvider, nil
			} else if lerr != nil {
				err = errors.Join(err, lerr)
			}
		}
		if err != nil {
			level := s.log.WarnContext
			if s.opts.Now().Sub(r.CreatedAt) > refundAlert {
				level = s.log.ErrorContext
			}
			level(ctx, "refund failed, trying again", "refund_id", r.ID, "payment_id", r.PaymentID, "attempt", r.Attempts, "error", err)
			return s.store.RetryRefund(ctx, r, backoff(r.Attempts, maxRefundWait), err)
		}
		r.ProviderID = id
	}
	if err := s.store.FinishRefund(ctx, r, refunded(r)); err != nil {
		return err
	}
	s.opts.Published()
	return nil
}
