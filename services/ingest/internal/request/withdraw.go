package request

import (
	"context"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// MaxWithdrawals is how often a user may withdraw from a promotion; whoever has done so does not apply
// again. Each withdrawn request stays in the list of the excluded ones, which everybody reads.
const MaxWithdrawals = 3

// withdrawTries bounds how often a withdrawal is tried that meets the settlement of the request.
const withdrawTries = 5

// Withdrawer takes lottery requests back.
type Withdrawer interface {
	// Withdrawable reads a request and whether the draw still takes entries of its group.
	Withdrawable(ctx context.Context, id string) (r promotion.Request, open bool, err error)
	// Withdraw ends a request as it was read; stale: somebody has changed it, or its group has closed.
	Withdraw(ctx context.Context, r promotion.Request) (stale bool, err error)
}

// Withdraw takes a user's lottery request back before the cutoff, by this replica's clock. Repeated, it
// changes nothing.
func (s *Service) Withdraw(ctx context.Context, id, user string) error {
	for range withdrawTries {
		r, open, err := s.withdrawals.Withdrawable(ctx, id)
		switch {
		case err != nil:
			return err
		case r.UserID != user:
			return ErrNotFound
		case r.ResultCode == promotion.RejectedWithdrawn:
			return nil
		case r.EventType != promotion.Lottery || r.Status.Final() || !open || s.now().UnixMilli() >= r.LotteryCutoffAt:
			return errs.ErrNotWithdrawable
		}
		stale, err := s.withdrawals.Withdraw(ctx, r)
		if err != nil || !stale {
			return err
		}
	}
	return errs.ErrOverloaded.WithRetry(withdrawRetry)
}
