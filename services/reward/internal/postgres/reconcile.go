package postgres

import (
	"context"
	"time"

	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres/db"
	"urr.guru/services/reward/internal/reconcile"
)

// Reconciliation implements reconcile.Store. Each of its statements is short and reads a page, so
// that the service may run meanwhile.
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
		out[i] = toCompared(db.ReconcilePageRow(row))
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
		out[i] = toCompared(row)
	}
	return out, nil
}

// toCompared converts the columns that are compared with a ledger.
func toCompared(r db.ReconcilePageRow) payout.Allocation {
	return payout.Allocation{
		ID: r.ID, MemberID: r.MemberID, Kind: payout.Kind(r.RewardKind), Value: r.RewardValue, Status: payout.Status(r.RewardStatus),
		IdempotencyKey: r.IdempotencyKey, Resends: int(r.Resends), ProcessedAt: orZero(r.ProcessedAt), UnknownSince: orZero(r.UnknownSince),
	}
}
