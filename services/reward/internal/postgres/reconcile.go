package postgres

import (
	"context"
	"time"

	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
	"urr.guru/services/reward/internal/reconcile"
)

// Reconciliation reads allocations for the comparison with a ledger. Each statement reads one page
// and is short, so that the service may run meanwhile.
type Reconciliation struct{ *Database }

var _ reconcile.Store = Reconciliation{}

func (r Reconciliation) Now(ctx context.Context) (time.Time, error) {
	now, err := r.q.ReconcileNow(ctx, r.now())
	return now, postgres.Err(err)
}

func (r Reconciliation) ByKeys(ctx context.Context, keys []string) ([]payout.Allocation, error) {
	rows, err := r.q.ReconcileByKeys(ctx, keys)
	if err != nil {
		return nil, postgres.Err(err)
	}
	out := make([]payout.Allocation, len(rows))
	for i, row := range rows {
		out[i] = toComparedAllocation(db.ReconcilePageRow(row))
	}
	return out, nil
}

func (r Reconciliation) Page(ctx context.Context, after int64, limit int) ([]payout.Allocation, error) {
	rows, err := r.q.ReconcilePage(ctx, db.ReconcilePageParams{After: after, Page: int32(limit)}) //nolint:gosec // a page
	if err != nil {
		return nil, postgres.Err(err)
	}
	out := make([]payout.Allocation, len(rows))
	for i, row := range rows {
		out[i] = toComparedAllocation(row)
	}
	return out, nil
}

// toComparedAllocation converts the columns that are compared with a ledger.
func toComparedAllocation(r db.ReconcilePageRow) payout.Allocation {
	return payout.Allocation{
		ID: r.ID, MemberID: r.MemberID, Kind: payout.Kind(r.RewardKind), Value: r.RewardValue, Status: payout.Status(r.RewardStatus),
		IdempotencyKey: r.IdempotencyKey, Resends: int(r.Resends), ProcessedAt: orZero(r.ProcessedAt), UnknownSince: orZero(r.UnknownSince),
	}
}
