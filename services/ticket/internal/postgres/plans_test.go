package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/ticket/internal/postgres"
)

var (
	statement   = regexp.MustCompile("(?s)const (\\w+) = `-- name: [^\n]*\n(.*?)`")
	placeholder = regexp.MustCompile(`\$(\d+)`)
)

// Every statement finds what it looks for by an index: none reads a whole table, however large it grows. The one exception looks over the
// events, once in ten seconds.
func TestEveryStatementHasItsIndex(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t, postgres.Migrations...)
	pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: url, MaxConns: 1}, "plans",
		append(postgres.Settings(), pkgpostgres.Setting("plan_cache_mode", "force_generic_plan"))...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	files, err := filepath.Glob("db/*.sql.go")
	require.NoError(t, err)
	seen := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range statement.FindAllStringSubmatch(string(source), -1) {
			name, sql := m[1], m[2]
			seen++
			for line := range strings.SplitSeq(explain(t, pool, name, sql), "\n") {
				allowed := name == "SoldByEvent" && strings.Contains(line, "on events")
				if strings.Contains(line, "Seq Scan on") && !allowed {
					t.Errorf("%s: %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
	require.Greater(t, seen, 35)
}

// explain returns the generic plan of a statement.
func explain(t *testing.T, pool *pgxpool.Pool, name, sql string) string {
	t.Helper()
	params := 0
	for _, m := range placeholder.FindAllStringSubmatch(sql, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		params = max(params, n)
	}
	prepared := strings.ToLower(name)
	_, err := pool.Exec(t.Context(), fmt.Sprintf("PREPARE %s AS %s", prepared, sql), pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err, name)
	execute := prepared
	if params > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ") + ")"
	}
	rows, err := pool.Query(t.Context(), "EXPLAIN EXECUTE "+execute, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err, name)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err, name)
	return strings.Join(lines, "\n")
}
