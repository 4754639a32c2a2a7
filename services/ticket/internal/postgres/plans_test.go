package postgres_test

import (
	"testing"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/ticket/internal/postgres"
)

// The exceptions: a page of events is read along the index of its order, and all events are scanned
// once in ten seconds.
func TestEveryStatementHasItsIndex(t *testing.T) {
	t.Parallel()
	postgrestest.RequireIndexes(t, postgres.Migrations, postgrestest.Statements(t), "ListEvents events", "SoldByEvent events")
}
