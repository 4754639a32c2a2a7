package postgrestest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/postgres"
)

var (
	scan        = regexp.MustCompile(`(?:Seq Scan|Index (?:Only )?Scan(?: Backward)? using \S+|Bitmap Heap Scan) on (\w+)`)
	statement   = regexp.MustCompile("(?s)const (\\w+) = `-- name: [^\n]*\n(.*?)`")
	placeholder = regexp.MustCompile(`\$(\d+)`)
)

// GeneratedQueries returns the SQL that sqlc has generated in the folder db of the test's package, by
// the queries' names.
func GeneratedQueries(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("db/*.sql.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no statements in db: %v", err)
	}
	statements := make(map[string]string)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range statement.FindAllStringSubmatch(string(source), -1) {
			statements[m[1]] = m[2]
		}
	}
	return statements
}

// RequireIndexes fails for each statement that reads a whole table, directly or along an index. The
// plans are those that a session with postgres.Indexed caches while the tables are empty.
// exceptions are of the form "Statement table".
func RequireIndexes(t testing.TB, sets []postgres.MigrationSet, statements map[string]string, exceptions ...string) {
	t.Helper()
	for name, plan := range Plans(t, sets, statements) {
		for _, table := range tablesReadWhole(plan) {
			if !slices.Contains(exceptions, name+" "+table) {
				t.Errorf("%s reads all of %s:\n%s", name, table, plan)
			}
		}
	}
}

// Plans returns the plan of each statement, by the statement's name, as RequireIndexes checks it.
func Plans(t testing.TB, sets []postgres.MigrationSet, statements map[string]string) map[string]string {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: URL(t, sets...), MaxConns: 1}, "plans",
		postgres.Indexed(), postgres.Setting("plan_cache_mode", "force_generic_plan"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	vacuumTables(t, pool)
	plans := make(map[string]string, len(statements))
	for name, sql := range statements {
		plans[name] = explainPlan(t, pool, name, sql)
	}
	return plans
}

// vacuumTables vacuums all tables, as autovacuum may do at any time. An empty table that was never
// vacuumed is assumed to have ten pages, for which PostgreSQL prefers an index; afterwards it knows
// that reading the only page costs less.
func vacuumTables(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		SELECT format('VACUUM ANALYZE %I', relname) FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND NOT coalesce(reloptions, '{}') @> ARRAY[
		    'autovacuum_analyze_threshold=10000', 'autovacuum_vacuum_threshold=10000', 'autovacuum_vacuum_insert_threshold=10000']`)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if _, err := pool.Exec(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
}

func tablesReadWhole(plan string) []string {
	var tables []string
	for node := range strings.SplitSeq(plan, "->") {
		if m := scan.FindStringSubmatch(node); m != nil && !strings.Contains(node, " Cond:") {
			tables = append(tables, m[1])
		}
	}
	return tables
}

func explainPlan(t testing.TB, pool *pgxpool.Pool, name, sql string) string {
	t.Helper()
	params := 0
	for _, m := range placeholder.FindAllStringSubmatch(sql, -1) {
		n, _ := strconv.Atoi(m[1]) // digits
		params = max(params, n)
	}
	prepared := strings.ToLower(name)
	if _, err := pool.Exec(t.Context(), fmt.Sprintf("PREPARE %s AS %s", prepared, sql), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	execute := prepared
	if params > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ") + ")"
	}
	rows, err := pool.Query(t.Context(), "EXPLAIN EXECUTE "+execute, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.Join(lines, "\n")
}
