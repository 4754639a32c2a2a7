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
	// refundAlert is the age from which a failed refund is logged as an error. The alert has the
	// same.
	refundAlert = 10 * time.Minute
)

// Group is the consumer group that processes rejections.
const Group = "payment-service-group"

// Rejection reports that a payment cannot be honoured.
type Rejection struct {
	// EventKey identifies the rejection, which is processed once.
	EventKey  string
	PaymentID uuid.UUID
	Reason    string
}

// Compensate refunds what is left of a payment. ErrNotFound when the payment does not exist.
func (s *Service) Compensate(ctx context.Context, r Rejection) error {
	if err := s.store.Compensate(ctx, r.EventKey, r.PaymentID, compensated(newID(), r.Reason)); err != nil {
		return err
	}
	s.wakeSweeper()
	return nil
}

// refund makes one attempt at a refund. All attempts have the same key at the provider.
func (s *Service) refund(ctx context.Context, r Refund) error {
	if r.Amount > 0 {
		pctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
		defer cancel()
		id, err := s.provider.Refund(pctx, r)
		if errors.Is(err, ErrRefundRefused) {
			done, lookupErr := s.alreadyRefunded(ctx, r)
			if err = errors.Join(err, lookupErr); done {
				s.reportManualRefund(ctx, Payment{ID: r.PaymentID, OrderID: r.OrderID}, true)
				id, err = manualRefundID, nil
			}
		}
		if err != nil {
			log := s.log.WarnContext
			if s.opts.Now().Sub(r.CreatedAt) > refundAlert {
				log = s.log.ErrorContext
			}
			log(ctx, "refund failed, trying again", "refund_id", r.ID, "payment_id", r.PaymentID, "attempt", r.Attempts, "error", err)
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
