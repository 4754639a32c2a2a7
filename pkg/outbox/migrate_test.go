package outbox_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
)

// migrationsBeforeHashes is the outbox before the rows of the previous release get their hashes.
func migrationsBeforeHashes(t *testing.T) postgres.MigrationSet {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range []string{"migrations/0001_outbox.sql", "migrations/0002_partitions.sql"} {
		data, err := fs.ReadFile(outbox.Migrations.FS, name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	return postgres.MigrationSet{Name: outbox.Migrations.Name, FS: files}
}

// A backlog is migrated in short transactions: while one waits for a row, the earlier ones block
// nobody, and an interrupted attempt is continued.
func TestBacklogIsMigratedInBatches(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, migrationsBeforeHashes(t))
	const rows = 12_000
	_, err := pool.Exec(t.Context(), `
		INSERT INTO outbox (event_id, shard, topic, key, type, entity_version, payload, headers)
		SELECT gen_random_uuid(), 0, 'topic', 'key-' || n, 'TESTED', 1, '{}', '{}' FROM generate_series(1, $1) AS n`, rows)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE outbox SET key_hash = NULL`)
	require.NoError(t, err)
	hashed := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(key_hash) FROM outbox`).Scan(&n))
		return n
	}
	deleting, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = deleting.Rollback(context.Background()) }()
	_, err = deleting.Exec(t.Context(), `
		SET idle_in_transaction_session_timeout = 0;
		SELECT FROM outbox WHERE id = (SELECT max(id) FROM outbox) FOR UPDATE`)
	require.NoError(t, err)
	attempt := make(chan error, 1)
	go func() { attempt <- postgres.Migrate(t.Context(), pool, outbox.Migrations) }()
	testkit.Until(t, func() bool { return hashed() == 10_000 }, "the parts before the locked row")
	require.NoError(t, deleting.Rollback(t.Context()))
	_ = testkit.Receive(t, attempt, "the end of the attempt") // which may have waited too long for the row
	require.NoError(t, postgres.Migrate(t.Context(), pool, outbox.Migrations))
	require.Equal(t, rows, hashed())
}
