package postgres_test

import (
	"testing"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/reward/internal/postgres"
)

// The exceptions read partial indexes that contain only campaigns with work left, and stop at a
// limit.
func TestEveryStatementHasItsIndex(t *testing.T) {
	t.Parallel()
	postgrestest.RequireIndexes(t, postgres.Migrations, postgrestest.GeneratedQueries(t),
		"CancellingCampaigns campaigns", "LockRetrying campaigns", "LockUnfinishedWinners campaigns")
}
