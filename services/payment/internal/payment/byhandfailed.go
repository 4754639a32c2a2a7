package payment

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

// A refund that a person made at the provider may fail there days later, and the bank may give back
// what a lost dispute took: the shop has the money again. What it has counted for is owed again.

// errCallUnderWay delays a decision while a call for a refund may still take effect.
var errCallUnderWay = errors.New("a refund that money by hand counts for may be under way")

// reasonDisputeWon is the reason of a refund that is HELD since the bank has given back what it took.
const reasonDisputeWon = "DISPUTE_WON"

// DecideByHandFailure returns the changes to make when a refund by hand has failed: of that refund,
// with the payment's change, and of other refunds of the payment; none: nothing changes. holding are
// the payment's refunds for which Refund.Holds is true. All rows are locked. now is the database's
// time.
type DecideByHandFailure func(p Payment, holding []Refund, now time.Time) ([]RefundChange, error)

// takeBack records that x, a refund without an id of this service, has failed. Nothing changes if it
// was never recorded.
func (s *Service) takeBack(ctx context.Context, p Payment, x ProviderRefund) error {
	changes, err := s.store.FailByHand(ctx, p.ID, failedByHand(newID(), x))
	if err != nil || len(changes) == 0 {
		return err
	}
	var owed int64
	if debt := changes[0].Payment.NewRefund; debt != nil {
		owed = debt.Amount
	}
	s.log.ErrorContext(ctx, "refund by hand failed at the provider", "payment_id", p.ID, "order_id", p.OrderID, "provider_refund_id", x.ID,
		"amount", x.Amount, "held_for_a_person", owed)
	s.wakeSweeper(Requests)
	return nil
}

// failedByHand takes back the money of a refund by hand: first what nobody has assigned, then what was
// called goodwill, then what counts for refunds and tickets. Refunds that are not made yet are sent
// with what it has covered of them. The rest is owed by a new refund, which is HELD. A refund that
// waits for a person only because of this money is sent again.
func failedByHand(debtID uuid.UUID, x ProviderRefund) DecideByHandFailure {
	return func(p Payment, holding []Refund, now time.Time) ([]RefundChange, error) {
		i := slices.IndexFunc(holding, func(r Refund) bool { return r.Cause == ByHand && r.Request == x.ID })
		if i < 0 || holding[i].Status == RefundFailed {
			return nil, nil
		}
		if slices.ContainsFunc(holding, func(r Refund) bool { return r.Cause == ByHand && r.Status == RefundRequested }) {
			return nil, errByHandRequested
		}
		failed := holding[i]
		failed.Status = RefundFailed
		uncovered := max(0, p.ByHandCounted-(p.RefundedByHand-failed.Amount))
		note := "a refund by hand has failed at the provider"
		if x.Lost {
			note = "the bank has given back what the lost dispute took"
		}
		c := p.withMoney(-failed.Amount, -failed.Amount, -uncovered, note)
		changes := []RefundChange{{Refund: failed, Wait: Keep, Payment: c}}
		assigned := p.Unassigned() <= failed.Amount
		for _, r := range holding {
			after, err := r.uncovered(uncovered, assigned, now)
			if err != nil {
				return nil, err
			}
			if after.KeyNumber != r.KeyNumber || after.Send != r.Send {
				uncovered -= after.Send - r.Send
				changes = append(changes, RefundChange{Refund: after})
			}
		}
		if uncovered > 0 {
			c.NewRefund = failed.debt(debtID, uncovered, x.Lost)
		}
		return changes, nil
	}
}

// uncovered returns the refund after money by hand was taken back, of which missing had covered
// something. assigned says that no money by hand is unassigned.
func (r Refund) uncovered(missing int64, assigned bool, now time.Time) (Refund, error) {
	if r.Status != RefundPending && r.Status != RefundHeld {
		return r, nil
	}
	back := min(missing, r.Amount-r.Send)
	switch waits := r.Status == RefundHeld && r.Reason == reasonByHand; {
	case back > 0 && !r.DoubtAt.IsZero():
		return r, errCallUnderWay
	case waits && assigned:
		r = r.sentAgain(now)
	case back > 0 && r.Status == RefundPending:
		r = r.withNewKey(now)
	}
	r.Send += back
	return r, nil
}

// debt returns the refund that owes what the failed refund by hand r has covered. Its tickets have
// ended, as was published.
func (r Refund) debt(id uuid.UUID, amount int64, lost bool) *Refund {
	reason := reasonFailed
	if lost {
		reason = reasonDisputeWon
	}
	return &Refund{
		ID: id, PaymentID: r.PaymentID, Provider: r.Provider, Cause: ByHandFailed, Request: r.Request, Reason: reason, Status: RefundHeld,
		Amount: amount, Published: true,
	}
}
