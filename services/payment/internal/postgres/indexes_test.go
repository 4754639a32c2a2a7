package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/payment/internal/postgres"
)

func TestEveryStatementHasItsIndex(t *testing.T) {
	t.Parallel()
	postgrestest.RequireIndexes(t, postgres.Migrations, postgrestest.GeneratedQueries(t))
}

// Every replica measures the backlog every ten seconds. It must not read payments that nobody has
// confirmed yet: there may be 100,000 at the start of a sale.
func TestBacklogReadsUnsettledOnly(t *testing.T) {
	t.Parallel()
	plan := postgrestest.Plans(t, postgres.Migrations, postgrestest.GeneratedQueries(t))["Backlog"]
	require.Contains(t, plan, "payments_unsettled")
	require.NotContains(t, plan, "payments_open")
}
