package postgres_test

import (
	"testing"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/reward/internal/postgres"
)

func TestEveryStatementHasItsIndex(t *testing.T) {
	t.Parallel()
	postgrestest.RequireIndexes(t, postgres.Migrations, postgrestest.Statements(t))
}
