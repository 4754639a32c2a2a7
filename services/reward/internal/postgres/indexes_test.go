package postgres_test

import (
	"testing"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/reward/internal/postgres"
)

// Each statement uses an index of its table. The exceptions listed here read a partial index that
// contains only campaigns with work left, and stop at a limit.
func TestEveryStatementHasItsIndex(t *testing.T) {
	t.Parallel()
	postgrestest.RequireIndexes(t, postgres.Migrations, postgrestest.GeneratedQueries(t),
		"CancellingCampaigns campaigns", "LockRetrying campaigns", "LockUnfinishedWinners campaigns")
}
