package payment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
)

// ErrRefundRefused is returned by a Provider's Refund when the provider refused, as opposed to not
// answering.
var ErrRefundRefused = errors.New("the provider refuses the refund")

const (
	// declineWrongAmount is the decline code of a charge of another amount than requested.
	declineWrongAmount = "WRONG_AMOUNT"
	// The reason, the provider id and the timeline note of refunds made manually at the provider.
	manualRefundReason = "REFUNDED_AT_PROVIDER"
	manualRefundID     = "by hand"
	manualRefundNote   = "refunded by hand at the provider"
)

// refundWrongAmount refunds the whole of a charge of another amount than requested, and then
// declines the payment. No state is stored in between: the provider reports what was refunded, and
// refunds once per key.
func (s *Service) refundWrongAmount(ctx context.Context, p Payment, out Outcome) (known bool, err error) {
	now, err := s.store.Get(ctx, p.ID)
	if err != nil {
		return false, err
	}
	if now.Status == Confirmed || now.Status == Refunding || now.Status == Refunded {
		// The provider has reported the right amount before, and the payer has what was paid for.
		// Only an operator may decide about a refund.
		s.opts.Observe.wrongAmount()
		s.log.ErrorContext(ctx, "wrong amount charged for a confirmed payment: nothing is changed", "payment_id", p.ID, "order_id", p.OrderID,
			"charged", out.Amount, "asked", p.Amount)
		return true, nil
	}
	if left := out.Amount - out.Refunded; left > 0 {
		rctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
		defer cancel()
		_, err := s.provider.Refund(rctx, Refund{
			ID: uuid.NewSHA1(p.ID, []byte("wrong amount "+strconv.FormatInt(left, 10))), PaymentID: p.ID, OrderID: p.OrderID, Amount: left,
		})
		if err != nil {
			return false, fmt.Errorf("order %s was charged %d instead of %d, giving it back: %w", p.OrderID, out.Amount, p.Amount, err)
		}
		failpoint.Hit("payment.wrong_amount.after_refund")
		s.opts.Observe.wrongAmount()
		s.log.ErrorContext(ctx, "wrong amount charged and given back", "payment_id", p.ID, "order_id", p.OrderID, "charged", out.Amount,
			"asked", p.Amount)
	}
	return true, s.applyDecision(ctx, p, declined(declineWrongAmount, fmt.Sprintf("charged %d instead of %d: given back", out.Amount, p.Amount)))
}

// captureWithManualRefund confirms a payment of which the provider has already refunded something.
// The sweeper checks the payment until both changes are written, since the process may die between
// them.
func (s *Service) captureWithManualRefund(ctx context.Context, p Payment, out Outcome) error {
	confirmed, err := s.store.Apply(ctx, p.ID, captured(out.ChargeID, firstPoll))
	if err != nil {
		return err
	}
	confirmed.Lease = p.Lease
	s.opts.Published()
	failpoint.Hit("payment.settle.after_captured")
	if err := s.recordManualRefund(ctx, p, out); err != nil {
		return err
	}
	return s.store.Reschedule(ctx, confirmed, Never)
}

// recordManualRefund records a refund that this service has not requested. A full refund makes the
// payment REFUNDED; a partial one needs a person's decision.
func (s *Service) recordManualRefund(ctx context.Context, p Payment, out Outcome) error {
	after, err := s.store.Apply(ctx, p.ID, manualRefund(newID(), out.Refunded))
	if err != nil {
		return err
	}
	switch {
	case after.Status == Refunded && p.Status != Refunded:
		s.opts.Published()
		s.reportManualRefund(ctx, p, true)
	case after.Status == Confirmed && out.Refunded > after.Refunded:
		s.reportManualRefund(ctx, p, false)
	}
	return nil
}

// manualRefund records that the provider has refunded the whole amount; refunded is the provider's
// total. A refund in progress may be part of that total, and is finished first.
func manualRefund(id uuid.UUID, refunded int64) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Confirmed || refunded != p.Amount || p.Refunded == p.Amount {
			return nil, nil //nolint:nilnil // nothing new
		}
		r := &Refund{
			ID: id, PaymentID: p.ID, OrderID: p.OrderID, Amount: p.Amount - p.Refunded, Cause: Operator, Reason: manualRefundReason,
			ProviderID: manualRefundID,
		}
		return &Change{
			Status: Refunded, Note: manualRefundNote, Check: Never, AddRefunded: r.Amount, NewRefund: r, Event: EventRefunded, Refund: r,
		}, nil
	}
}

// alreadyRefunded reports whether the provider has refunded the whole charge already, so that it
// refuses the refund r although it is done.
func (s *Service) alreadyRefunded(ctx context.Context, r Refund) (done bool, err error) {
	lctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
	defer cancel()
	out, err := s.provider.Lookup(lctx, r.OrderID)
	return err == nil && out.State == Captured && out.Amount > 0 && out.Refunded >= out.Amount, err
}

// reportManualRefund logs and counts a refund that this service has not requested.
func (s *Service) reportManualRefund(ctx context.Context, p Payment, whole bool) {
	s.opts.Observe.manualRefund(whole)
	if whole {
		s.log.WarnContext(ctx, "payment refunded by hand at the provider", "payment_id", p.ID, "order_id", p.OrderID)
		return
	}
	s.log.ErrorContext(ctx, "payment refunded in part by hand at the provider: nothing is changed", "payment_id", p.ID, "order_id", p.OrderID)
}
