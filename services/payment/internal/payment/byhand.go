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

// ErrRefundRefused is what a Provider's Refund returns when the provider said no, as opposed to not
// answering.
var ErrRefundRefused = errors.New("the provider refuses the refund")

const (
	// declineWrongAmount is the decline code of a charge of another amount than was asked for.
	declineWrongAmount = "WRONG_AMOUNT"
	// byHandReason is the reason of a refund that somebody made at the provider, byHandProvider its
	// number there.
	byHandReason   = "REFUNDED_AT_PROVIDER"
	byHandProvider = "by hand"
	byHandNote     = "refunded by hand at the provider"
)

// wrongAmount gives back a charge of another amount than was asked for: the whole of it, and only
// then is the payment declined. It needs no memory of its own: until the money is back the provider
// says so, and it gives back once per key.
func (s *Service) wrongAmount(ctx context.Context, p Payment, out Outcome) (known bool, err error) {
	now, _, err := s.store.Get(ctx, p.ID)
	if err != nil {
		return false, err
	}
	if now.Status == Confirmed || now.Status == Refunding || now.Status == Refunded {
		// Whoever confirmed it did not compare the amounts, as the release before did not: its
		// payer has what was paid for, so that money goes back by an operator's decision only.
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
	return true, s.write(ctx, p, declined(declineWrongAmount, fmt.Sprintf("charged %d instead of %d: given back", out.Amount, p.Amount)))
}

// capturedAndGivenBack confirms a payment of which the provider has given something back already.
// Until both are written the sweeper looks again: whoever dies in between leaves a payment that is
// confirmed, and of which nobody else would ask.
func (s *Service) capturedAndGivenBack(ctx context.Context, p Payment, out Outcome) error {
	confirmed, err := s.store.Apply(ctx, p.ID, captured(out.ChargeID, firstLook))
	if err != nil {
		return err
	}
	s.opts.Published()
	failpoint.Hit("payment.settle.after_captured")
	if err := s.givenBack(ctx, p, out); err != nil {
		return err
	}
	return s.store.Reschedule(ctx, confirmed, Never)
}

// givenBack follows up what the provider has given back of a captured charge without being asked by
// us. All of it makes the payment REFUNDED; what to do about a part is for a person to decide.
func (s *Service) givenBack(ctx context.Context, p Payment, out Outcome) error {
	after, err := s.store.Apply(ctx, p.ID, byHand(newID(), out.Refunded))
	if err != nil {
		return err
	}
	switch {
	case after.Status == Refunded && p.Status != Refunded:
		s.opts.Published()
		s.saidByHand(ctx, p, true)
	case after.Status == Confirmed && out.Refunded > after.Refunded:
		s.saidByHand(ctx, p, false)
	}
	return nil
}

// byHand says that the provider has given back `refunded` in all. A refund of ours that is under
// way may be part of it and comes first.
func byHand(id uuid.UUID, refunded int64) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Confirmed || refunded != p.Amount || p.Refunded == p.Amount {
			return nil, nil //nolint:nilnil // nothing that is not known
		}
		r := &Refund{
			ID: id, PaymentID: p.ID, OrderID: p.OrderID, Amount: p.Amount - p.Refunded, Cause: Operator, Reason: byHandReason,
			ProviderID: byHandProvider,
		}
		return &Change{
			Status: Refunded, Note: byHandNote, Check: Never, GivenBack: r.Amount, NewRefund: r, Event: EventRefunded, Refund: r,
		}, nil
	}
}

// refusedRefund looks why a provider refuses a refund: when all of the charge is given back
// already, somebody was faster, and it is done.
func (s *Service) refusedRefund(ctx context.Context, r Refund) (done bool, err error) {
	lctx, cancel := context.WithTimeout(ctx, s.opts.ProviderTimeout)
	defer cancel()
	out, err := s.provider.Lookup(lctx, r.OrderID)
	return err == nil && out.State == Captured && out.Amount > 0 && out.Refunded >= out.Amount, err
}

// saidByHand tells the operators of a refund that nobody here asked for.
func (s *Service) saidByHand(ctx context.Context, p Payment, whole bool) {
	s.opts.Observe.byHand(whole)
	if whole {
		s.log.WarnContext(ctx, "payment refunded by hand at the provider", "payment_id", p.ID, "order_id", p.OrderID)
		return
	}
	s.log.ErrorContext(ctx, "payment refunded in part by hand at the provider: nothing is changed", "payment_id", p.ID, "order_id", p.OrderID)
}
