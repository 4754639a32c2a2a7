package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/postgres/db"
)

// Budgets keeps what all replicas have taken of the calls that providers allow, by the database's
// clock.
type Budgets struct{ q *db.Queries }

var _ budget.Store = Budgets{}

// NewBudgets returns the budgets in the database of the pool.
func NewBudgets(pool *pgxpool.Pool) Budgets { return Budgets{db.New(pool)} }

func (b Budgets) TakeShare(ctx context.Context, provider, endpoint string, limits budget.Limits, n int) (budget.Share, error) {
	take := db.TakeShareParams{
		Provider: provider, Endpoint: endpoint, PerSecond: limits.PerSecond, PerEndpoint: limits.PerEndpoint, Wanted: int32(n), //nolint:gosec // a second's calls
	}
	row, err := b.q.TakeShare(ctx, take)
	if errors.Is(err, pgx.ErrNoRows) { // the first call to this endpoint
		if err = b.q.EnsureBudgets(ctx, db.EnsureBudgetsParams{Provider: provider, Endpoints: []string{"", endpoint}}); err == nil {
			row, err = b.q.TakeShare(ctx, take)
		}
	}
	return budget.Share{Calls: int(row.Calls), Wait: seconds(row.WaitSeconds), Gap: seconds(row.GapSeconds)}, postgres.Err(err)
}

func (b Budgets) Slow(ctx context.Context, provider, endpoint string) error {
	return postgres.Err(b.q.SlowBudget(ctx, db.SlowBudgetParams{Provider: provider, Endpoint: endpoint}))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
