package request

import (
	"context"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// MaxWithdrawals is how often a user may withdraw from a promotion before it is forbidden to apply
// again. Each withdrawn request stays in the public list of exclusions, which must stay short.
const MaxWithdrawals = 3

// DecideWithdrawal returns the change that withdraws a lottery request; nil if it is withdrawn
// already. open says that the draw still accepts changes of the request's group of entries.
type DecideWithdrawal func(r promotion.Request, open bool, now int64) (*promotion.Change, error)

// Withdrawer withdraws lottery requests.
type Withdrawer interface {
	// Withdraw reads a request and writes the change that decide returns. It starts again if the
	// request or its group was changed meanwhile.
	Withdraw(ctx context.Context, id string, decide DecideWithdrawal) error
}

// Withdraw withdraws a user's lottery request before the cutoff, by this replica's clock. A
// repeated call succeeds.
func (s *Service) Withdraw(ctx context.Context, id, user string) error {
	return s.store.Withdraw(ctx, id, withdrawalBy(user))
}

func withdrawalBy(user string) DecideWithdrawal {
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
