package postgres_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
)

var full = flag.Bool("full", false, "plans: 1,000,000 finished rows instead of 100,000")

// crowded returns a table with as many due rows as finished ones (with -full a tenth). Some leases
// have ended, some rows are held, and a member has 5,000 rows.
func crowded(t *testing.T) *pgxpool.Pool {
	t.Helper()
	finished, due := 100_000, 100_000
	if *full {
		finished = 1_000_000
	}
	pool := open(t)
	conn, err := pgx.Connect(t.Context(), pool.Config().ConnString()) // without the pool's time limits
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	exec := func(sql string, args ...any) {
		_, err := conn.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(`SET session_replication_role = replica`) // without the checks of foreign keys
	exec(`INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at)
		SELECT 'c' || n, 'Campaign', 'RANDOM', now() - interval '1 h', now() + interval '1 h' FROM generate_series(0, 9) AS n`)
	later := withoutIndexes(t, conn)
	exec(`ALTER TABLE event_reward_allocation SET UNLOGGED`)
	exec(`INSERT INTO event_reward_allocation (event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key, reward_status,
			external_transaction_id, next_retry_at, lease_until, held_at, recoveries)
		SELECT 'c' || n % 10, CASE WHEN n % 40 = 0 THEN 'busy' ELSE 'm' || n END, n, CASE WHEN n % 2 = 0 THEN 'POINT' ELSE 'COUPON' END, 100, 'DRAW',
			'key-' || lpad(n::text, 8, '0'), status, CASE WHEN status = 'SUCCESS' THEN 'tx' END,
			CASE WHEN status = 'PENDING' OR status = 'FAILED' AND n % 1000 >= 4 THEN now() - n * interval '1 ms' END,
			CASE WHEN status = 'PROCESSING' THEN now() - interval '1 h' END,
			CASE WHEN status = 'FAILED' AND n % 1000 < 4 THEN now() END, n % 10
		FROM (SELECT n, CASE WHEN n <= $1::int THEN 'SUCCESS' WHEN n % 400 < 2 THEN 'PROCESSING' WHEN n % 8 < 4 THEN 'FAILED' ELSE 'PENDING' END AS status
			FROM generate_series(1, $1::int + $2::int) AS n) AS r`, finished, due)
	for _, definition := range later {
		exec(definition)
	}
	exec(`ANALYZE event_reward_allocation`)
	exec(`ANALYZE campaigns`)
	return pool
}

// withoutIndexes drops the indexes that are not constraints and returns their definitions: building
// them afterwards takes a fifth of the time.
func withoutIndexes(t testing.TB, conn *pgx.Conn) (definitions []string) {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT indexname, indexdef FROM pg_indexes
		WHERE tablename = 'event_reward_allocation' AND indexname NOT IN (SELECT conname FROM pg_constraint)`)
	require.NoError(t, err)
	var names []string
	for rows.Next() {
		var name, definition string
		require.NoError(t, rows.Scan(&name, &definition))
		names, definitions = append(names, name), append(definitions, definition)
	}
	require.NoError(t, rows.Err())
	require.NotEmpty(t, names)
	_, err = conn.Exec(t.Context(), `DROP INDEX `+strings.Join(names, ", "))
	require.NoError(t, err)
	return definitions
}

// Each statement is run with EXPLAIN ANALYZE, with a generic plan, as in production, and with a
// custom plan. rows is the most rows that it may read from the table. sorted is the most rows that
// it may sort, such as the rows of a claim, or ids that are locked in order.
func TestPlansOfAFullTable(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "tests on a full table")
	pool := crowded(t)
	statements := postgrestest.GeneratedQueries(t)
	const ids = `(SELECT array_agg(id) FROM (SELECT id FROM event_reward_allocation WHERE event_id = 'c4' AND reward_status = 'PENDING' ORDER BY id LIMIT 1000) AS chunk)`
	for name, want := range map[string]struct {
		args         string
		indexes      []string
		rows, sorted int
	}{
		"Claim": {
			`'POINT', 5, NULL, 100, 10, 3600, 30`,
			[]string{"event_reward_allocation_pkey", "idx_reward_grant_retry_queue", "reward_processing"}, 1000, 300,
		},
		"HoldAbandoned":     {`NULL, 'CODE', 'POINT', 5`, []string{"event_reward_allocation_pkey", "reward_processing"}, 1000, 0},
		"Cancel":            {`NULL, false, ` + ids, []string{"event_reward_allocation_pkey"}, 4000, 1000},
		"Retry":             {`NULL, '', ` + ids, []string{"event_reward_allocation_pkey"}, 4000, 1000},
		"UncancelledIDs":    {`'c4', 'PENDING', 0, 1000`, []string{"reward_event"}, 1000, 0},
		"ByStatus":          {`'FAILED', 9000000000, 21`, []string{"reward_status"}, 21, 0},
		"ByEvent":           {`'c0', 'FAILED', 9000000000, 21`, []string{"reward_event"}, 21, 0},
		"ByMember":          {`'busy', 9000000000, '', '', 21`, []string{"reward_member"}, 21, 0},
		"ReachedMilestones": {`ARRAY['busy', 'm1'], 'c0'`, []string{"reward_milestones"}, 0, 0},
		"AllocationsByKeys": {`ARRAY['key-00000040', 'key-00000080']`, []string{"event_reward_allocation_idempotency_key_key"}, 2, 2},
		"Backlog":           {`ARRAY['POINT', 'COUPON'], NULL`, []string{"idx_reward_grant_retry_queue", "reward_failing", "reward_held", "reward_processing", "reward_unknown", "reward_unpaid"}, 1500, 0},
	} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				args := strings.ReplaceAll(want.args, ids, constant(t, pool, ids))
				read := measure(t, explainAnalyze(t, pool, mode, statements[name], args))
				require.Empty(t, read.whole, "tables that are read from end to end")
				require.LessOrEqual(t, read.rows, want.rows, "rows read of the table")
				require.LessOrEqual(t, read.sorted, want.sorted, "rows sorted")
				require.Equal(t, want.indexes, read.indexes)
			})
		}
	}
}

// constant returns the value of an expression as a literal.
func constant(t *testing.T, pool *pgxpool.Pool, expression string) (literal string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT quote_literal((`+expression+`)::text)`).Scan(&literal))
	return literal
}

type planNode struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Rows     int    `json:"Actual Rows"`
	Loops    int    `json:"Actual Loops"`
	Removed  int    `json:"Rows Removed by Filter"`
	Plans    []planNode
}

// explainAnalyze runs a statement with EXPLAIN ANALYZE, and rolls it back.
func explainAnalyze(t *testing.T, pool *pgxpool.Pool, mode, sql, args string) planNode {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, command := range []string{`SET LOCAL plan_cache_mode = ` + mode, `PREPARE explained AS ` + sql} {
		_, err = tx.Exec(t.Context(), command, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	var out string
	require.NoError(t, tx.QueryRow(t.Context(), fmt.Sprintf(`EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE explained(%s)`, args),
		pgx.QueryExecModeSimpleProtocol).Scan(&out))
	_, err = tx.Exec(t.Context(), `DEALLOCATE explained`)
	require.NoError(t, err)
	var plans []struct{ Plan planNode }
	require.NoError(t, json.Unmarshal([]byte(out), &plans))
	return plans[0].Plan
}

// reading is what a plan has read of event_reward_allocation, and what it has sorted.
type reading struct {
	indexes      []string
	whole        []string
	rows, sorted int
}

func measure(t *testing.T, root planNode) (r reading) {
	t.Helper()
	const table = "event_reward_allocation"
	var walk func(n planNode)
	walk = func(n planNode) {
		switch {
		case n.Type == "Seq Scan":
			r.whole = append(r.whole, n.Relation)
		case n.Relation == table && strings.Contains(n.Type, "Scan"):
			r.rows += (n.Rows + n.Removed) * n.Loops
		case strings.HasPrefix(n.Type, "Bitmap Index"):
			r.rows += n.Rows * n.Loops
		case strings.Contains(n.Type, "Sort"):
			r.sorted += n.Rows * n.Loops
		}
		if (n.Relation == table || strings.HasPrefix(n.Type, "Bitmap Index")) && n.Index != "" && !slices.Contains(r.indexes, n.Index) {
			r.indexes = append(r.indexes, n.Index)
		}
		for _, child := range n.Plans {
			walk(child)
		}
	}
	walk(root)
	slices.Sort(r.indexes)
	return r
}
