package postgres_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/ticket/internal/postgres"
)

// without returns ticket's own migrations but for those named.
func without(t *testing.T, names ...string) pkgpostgres.MigrationSet {
	t.Helper()
	set := postgres.Migrations[0]
	files := fstest.MapFS{}
	paths, err := fs.Glob(set.FS, "migrations/*.sql")
	require.NoError(t, err)
	for _, path := range paths {
		data, err := fs.ReadFile(set.FS, path)
		require.NoError(t, err)
		files[path] = &fstest.MapFile{Data: data}
	}
	for _, name := range names {
		require.Contains(t, files, "migrations/"+name)
		delete(files, "migrations/"+name)
	}
	set.FS = files
	return set
}

// Lines that exist before the migration may be in use: an upgrade must not open them as if they were new.
func TestExistingLinesCountAsOpened(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.NoError(t, pkgpostgres.Migrate(t.Context(), pool, without(t, "0006_line_opened.sql")))
	_, err := pool.Exec(t.Context(), `INSERT INTO line_settings (event_id) VALUES ('e')`)
	require.NoError(t, err)
	require.NoError(t, pkgpostgres.Migrate(t.Context(), pool, postgres.Migrations[0]))
	var opened bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT opened_at IS NOT NULL FROM line_settings`).Scan(&opened))
	require.True(t, opened)
}
