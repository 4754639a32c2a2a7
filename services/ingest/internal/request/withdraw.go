package request

import (
	"context"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// MaxWithdrawals is how many times a user may withdraw from a promotion; after that the user may
// not apply again. It bounds the public list of exclusions, in which each withdrawn request stays.
const MaxWithdrawals = 3

// DecideWithdrawal returns the change that withdraws a lottery request, nil if it is withdrawn
// already. open says that entries of the request's group can still be added and deleted.
type DecideWithdrawal func(r promotion.Request, open bool, now int64) (*promotion.Change, error)

// Withdrawer withdraws lottery requests.
type Withdrawer interface {
	// Withdraw reads a request and writes the change that decide returns. It begins again when the
	// request or its group was changed meanwhile.
	Withdraw(ctx context.Context, id string, decide DecideWithdrawal) error
}

// Withdraw withdraws a user's lottery request before the cutoff, by this replica's clock. It may be
// repeated.
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
