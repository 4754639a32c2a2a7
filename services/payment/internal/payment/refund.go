package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

const (
	// maxRefundWait is the longest pause between two attempts at a refund.
	maxRefundWait = 5 * time.Minute
	// refundAlert is the age from which a pending refund is logged as an error, as in the alert on
	// its age.
	refundAlert = 10 * time.Minute
)

// Group is the consumer group that processes rejections.
const Group = "payment-service-group"

// Rejection is the report that a payment cannot be honoured.
type Rejection struct {
	// EventKey is unique per rejection; a repeated one has no effect.
	EventKey  string
	PaymentID uuid.UUID
	Reason    string
}

// Compensate refunds what is left of the payment. ErrNotFound when there is no such payment.
func (s *Service) Compensate(ctx context.Context, r Rejection) error {
	if err := s.store.Compensate(ctx, r.EventKey, r.PaymentID, compensated(newID(), r.Reason)); err != nil {
		return err
	}
	s.wakeSweeper()
	return nil
}

// refund makes one attempt at a refund, under the same key as every other attempt.
func (s *Service) refund(ctx context.Context, r Refund) error {
	if r.Amount > 0 {
		pctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
		defer cancel()
		id, err := s.provider.Refund(pctx, r)
		if errors.Is(err, ErrRefundRefused) {
			if done, lerr := s.alreadyRefunded(ctx, r); done {
				s.reportManualRefund(ctx, Payment{ID: r.PaymentID, OrderID: r.OrderID}, true)
				id, err = manualRefundID, nil
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
