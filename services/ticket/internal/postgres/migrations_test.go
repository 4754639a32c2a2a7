package postgres_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
)

// before returns ticket's own migrations before the named one.
func before(t *testing.T, name string) pkgpostgres.MigrationSet {
	t.Helper()
	set := postgres.Migrations[0]
	files := fstest.MapFS{}
	paths, err := fs.Glob(set.FS, "migrations/*.sql")
	require.NoError(t, err)
	require.Contains(t, paths, "migrations/"+name)
	for _, path := range paths {
		if path >= "migrations/"+name {
			continue
		}
		data, err := fs.ReadFile(set.FS, path)
		require.NoError(t, err)
		files[path] = &fstest.MapFile{Data: data}
	}
	set.FS = files
	return set
}

// Lines that exist before the migration may be in use: an upgrade must not open them as if they were new.
func TestExistingLinesCountAsOpened(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.NoError(t, pkgpostgres.Migrate(t.Context(), pool, before(t, "0006_line_opened.sql")))
	_, err := pool.Exec(t.Context(), `INSERT INTO line_settings (event_id) VALUES ('e')`)
	require.NoError(t, err)
	require.NoError(t, pkgpostgres.Migrate(t.Context(), pool, postgres.Migrations[0]))
	var opened bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT opened_at IS NOT NULL FROM line_settings`).Scan(&opened))
	require.True(t, opened)
}

// The previous release does not know the column: its events are in the default time zone.
func TestEventsOfThePreviousReleaseHaveTheDefaultTimeZone(t *testing.T) {
	t.Parallel()
	insert := `INSERT INTO events (event_id, title, artist, venue, starts_at, sales_open_at, sales_close_at, seating, currency, max_per_user)
		VALUES ($1, 'T', 'A', 'V', '2030-05-02Z', '2030-05-01Z', '2030-05-02Z', 'GENERAL', 'KRW', 4)`
	pool := postgrestest.New(t)
	require.NoError(t, pkgpostgres.Migrate(t.Context(), pool, before(t, "0007_event_time_zone.sql")))
	_, err := pool.Exec(t.Context(), insert, "before")
	require.NoError(t, err)
	require.NoError(t, pkgpostgres.Migrate(t.Context(), pool, postgres.Migrations[0]))
	_, err = pool.Exec(t.Context(), insert, "after")
	require.NoError(t, err)
	var inDefault int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE time_zone = $1`, event.DefaultTimeZone).Scan(&inDefault))
	require.Equal(t, 2, inDefault)
}
