package request

import (
	"context"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// MaxWithdrawals is how often a user may withdraw from a promotion; whoever has done so does not apply
// again. Each withdrawn request stays in the list of the excluded ones, which everybody reads.
const MaxWithdrawals = 3

// DecideWithdrawal returns the end of a lottery request at a time; nil: there is nothing to write.
// open: the draw still takes entries of its group.
type DecideWithdrawal func(r promotion.Request, open bool, now int64) (*promotion.Change, error)

// Withdrawer takes lottery requests back.
type Withdrawer interface {
	// Withdraw reads a request and writes what decide makes of it, and reads it again when somebody
	// has changed it meanwhile, or its group has closed.
	Withdraw(ctx context.Context, id string, decide DecideWithdrawal) error
}

// Withdraw takes a user's lottery request back before the cutoff, by this replica's clock. Repeated, it
// changes nothing.
func (s *Service) Withdraw(ctx context.Context, id, user string) error {
	return s.store.Withdraw(ctx, id, withdrawn(user))
}

func withdrawn(user string) DecideWithdrawal {
	return func(r promotion.Request, open bool, now int64) (*promotion.Change, error) {
		switch {
		case r.UserID != user:
			return nil, ErrNotFound
		case r.ResultCode == promotion.RejectedWithdrawn:
			return nil, nil //nolint:nilnil // it is withdrawn already
		case r.EventType != promotion.Lottery || r.Status.Final() || !open || now >= r.LotteryCutoffAt:
			return nil, errs.ErrNotWithdrawable
		}
		c := r.Withdrawn(now)
		return &c, nil
	}
}
