package events_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/storetest"
)

// sellUnseen sells the first seat without recording the change in seat_changes.
func sellUnseen(t *testing.T, svc *storetest.Service) {
	t.Helper()
	_, err := svc.Pool.Exec(t.Context(), `ALTER TABLE seats DISABLE TRIGGER seats_changed`)
	require.NoError(t, err)
	_, err = svc.Pool.Exec(t.Context(), sell, "A-1-1")
	require.NoError(t, err)
	_, err = svc.Pool.Exec(t.Context(), `ALTER TABLE seats ENABLE TRIGGER seats_changed`)
	require.NoError(t, err)
}

// A snapshot shows a change that was not recorded after at most 35 s, or at once if the database
// server was restarted or replaced.
func TestSnapshotReadsAllAgain(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]func(svc *storetest.Service, now *time.Time){
		"a while":   func(_ *storetest.Service, now *time.Time) { *now = now.Add(36 * time.Second) },
		"a restart": func(svc *storetest.Service, _ *time.Time) { svc.EventStore.SetRestarted("e") },
		"an older server": func(svc *storetest.Service, _ *time.Time) {
			svc.EventStore.SetSnapshot("e", "9000000000:9000000000:")
		},
		"another server": func(svc *storetest.Service, _ *time.Time) {
			svc.EventStore.SetSnapshot("e", "9000000000:9000000009:9000000001")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			now := storetest.Start
			svc.EventStore.SetNow(func() time.Time { return now })
			svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)))
			require.Equal(t, "....", free(t, svc))
			sellUnseen(t, svc)
			now = now.Add(24 * time.Second)
			require.Equal(t, "....", free(t, svc))
			trigger(svc, &now)
			require.Equal(t, "x...", free(t, svc))
			read := svc.Statements.Sent("TakenSeats")
			require.Equal(t, "x...", free(t, svc))
			require.Equal(t, read, svc.Statements.Sent("TakenSeats"))
		})
	}
}

// planNode is a node of the plan that EXPLAIN (ANALYZE, FORMAT JSON) returns.
type planNode struct {
	Relation string     `json:"Relation Name"`
	Rows     float64    `json:"Actual Rows"`
	Removed  float64    `json:"Rows Removed by Filter"`
	Rechecks float64    `json:"Rows Removed by Index Recheck"`
	Loops    float64    `json:"Actual Loops"`
	Plans    []planNode `json:"Plans"`
}

// rowsRead returns how many rows of a table the plan has read.
func (n *planNode) rowsRead(table string) (rows float64) {
	if n.Relation == table {
		rows = (n.Rows + n.Removed + n.Rechecks) * n.Loops
	}
	for i := range n.Plans {
		rows += n.Plans[i].rowsRead(table)
	}
	return rows
}

// While a long transaction runs, the xmin of snapshots does not advance. Even so, changes that were
// read are not read again.
func TestSnapshotDuringALongTransaction(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)))
	longTx := begin(t, svc)
	change(t, longTx, sell, "A-1-1")
	require.Equal(t, "....", free(t, svc))
	for range 20 {
		_, err := svc.Pool.Exec(t.Context(), `
			INSERT INTO seat_changes (event_id, idx, states) SELECT 'e', '{1}', CASE WHEN n = 1000 THEN '{-1}' ELSE '{0}' END::bigint[]
			FROM generate_series(1, 1000) n`)
		require.NoError(t, err)
	}
	require.Equal(t, ".x..", free(t, svc))
	var since string
	require.NoError(t, svc.Pool.QueryRow(t.Context(), `SELECT pg_current_snapshot()`).Scan(&since))
	third := begin(t, svc)
	change(t, third, sell, "A-1-3")
	require.NoError(t, third.Commit(t.Context()))

	plan := explainChanges(t, svc, since)
	require.LessOrEqual(t, plan.rowsRead("seat_changes"), float64(10))
	require.Positive(t, plan.rowsRead("seat_changes"))
	require.Equal(t, ".xx.", free(t, svc))
	require.NoError(t, longTx.Commit(t.Context()))
	require.LessOrEqual(t, explainChanges(t, svc, since).rowsRead("seat_changes"), float64(10))
	require.Equal(t, "xxx.", free(t, svc))
}

// explainChanges runs SeatChanges and returns its plan.
func explainChanges(t *testing.T, svc *storetest.Service, since string) *planNode {
	t.Helper()
	var encoded string
	err := svc.Pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+db.SeatChanges, pgx.QueryExecModeSimpleProtocol,
		nil, since, "e").Scan(&encoded)
	require.NoError(t, err)
	var plans []struct{ Plan planNode }
	require.NoError(t, json.Unmarshal([]byte(encoded), &plans))
	return &plans[0].Plan
}

// PostgreSQL must inline the function seat_state: 50,000 calls of it would take longer than the
// rest of the statement.
func TestStateOfSeatsIsInlined(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	rows, err := svc.Pool.Query(t.Context(), "EXPLAIN (VERBOSE) "+db.TakenSeats, pgx.QueryExecModeSimpleProtocol, nil, "e")
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotContains(t, strings.Join(lines, "\n"), "seat_state(")
}

// Many old changes are deleted by several statements, even if the bound of old ones stays.
func TestPruningABacklog(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	ctx := t.Context()
	_, err := svc.Pool.Exec(ctx, `
		INSERT INTO seat_changes (xid, event_id, idx, states)
		SELECT CASE WHEN n % 2 = 0 THEN '3'::xid8 ELSE '9000000000'::xid8 END, 'e', '{0}', '{-1}' FROM generate_series(1, 24000) n`)
	require.NoError(t, err)
	require.NoError(t, svc.EventStore.PruneChanges(ctx))
	require.Zero(t, svc.Count(t, `SELECT count(*) FROM seat_changes`))
	require.Equal(t, 3, svc.Statements.Sent("PruneSeatChanges"))
	require.Equal(t, 3, svc.Statements.Sent("DropRestoredSeatChanges"))
}
