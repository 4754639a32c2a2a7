package postgres_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/storetest"
)

// inLocker are the files of the Locker, which alone run statements that take locks.
var inLocker = map[string]bool{"locker.go": true, "users.go": true}

// outsideLocker are the other statements that take locks, with the reason why they need no phase.
var outsideLocker = map[string]string{
	"LockFreeSeats":   "SKIP LOCKED: it never waits",
	"LockFreeSeatsOf": "SKIP LOCKED: it never waits",
	"TryLockUsers":    "it never waits (users.go)",
	"LockListToDrop":  "SKIP LOCKED: it never waits",
	"PruneActs":       "SKIP LOCKED: it never waits",
	"ClaimDeliveries": "SKIP LOCKED: it never waits",
	"PruneNotices":    "SKIP LOCKED: it never waits",
	"PruneClaims":     "SKIP LOCKED: it never waits",
	"TakeDueReturns":  "SKIP LOCKED: it never waits",
	"CountScans":      "SKIP LOCKED: it never waits",
	"LeaseEnded":      "SKIP LOCKED: it never waits",
	"LockWalk":        "it never waits",
	"LockWebhooks":    "the only lock of its transaction",
	"Requeue":         "the only rows of its transaction that others lock, of notices that are being deleted",
}

// statements returns the SQL of each statement in queries, by name, without comments.
func statements(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("queries/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	comment, all := regexp.MustCompile(`--.*`), make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, s := range strings.Split(string(text), "-- name: ")[1:] {
			name, sql, _ := strings.Cut(s, " ")
			all[name] = comment.ReplaceAllString(sql, "")
		}
	}
	return all
}

var takesLocks = regexp.MustCompile(`(?i)FOR\s+(NO\s+KEY\s+)?(UPDATE|(KEY\s+)?SHARE)|advisory`)

// Each statement that takes locks is either run by the Locker, which knows its phase, or listed here
// with the reason why it needs none. Code that runs one of the Locker's statements without it fails
// this test.
//
// Locks that follow from writes are not seen here: an UPDATE of rows that its transaction has not
// locked before, and new rows, for which others wait that insert the same key. The stores write only
// what they have locked, or what no other transaction locks together with other rows.
func TestEveryLockHasItsPhase(t *testing.T) {
	t.Parallel()
	locking := make(map[string]bool)
	for name, sql := range statements(t) {
		if takesLocks.MatchString(sql) {
			locking[name] = true
		}
	}
	for name := range outsideLocker {
		require.True(t, locking[name], "%s takes no locks, or does not exist: remove it from this list", name)
	}
	uses := uses(t, locking)
	for name := range locking {
		if outsideLocker[name] == "" {
			require.NotEmpty(t, uses[name], "%s takes locks, but is not in locker.go", name)
			require.Empty(t, usesOutside(uses[name]), "%s is run without the Locker", name)
		}
	}
}

func usesOutside(files []string) (outside []string) {
	for _, f := range files {
		if !inLocker[f] {
			outside = append(outside, f)
		}
	}
	return outside
}

// uses returns the files of this service that run statements, or name their SQL, by name of the
// statement. Functions of packages that have the same name, such as postgres.LockTickets, do not
// count.
func uses(t *testing.T, names map[string]bool) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		generated := strings.HasSuffix(filepath.Dir(path), "postgres/db")
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || generated {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !names[s.Sel.Name] {
				return true
			}
			if of, ok := s.X.(*ast.Ident); !ok || of.Name != "postgres" && of.Name != "purchases" {
				name, _ := filepath.Rel("../postgres", path)
				found[s.Sel.Name] = append(found[s.Sel.Name], name)
			}
			return true
		})
		return nil
	}))
	return found
}

// A transaction may take locks of a phase again, but none of an earlier phase.
func TestLocksAreTakenInOrder(t *testing.T) {
	t.Parallel()
	database, ids := storetest.New(t).Database, []uuid.UUID{uuid.New()}
	inOrder := []func(context.Context, *postgres.Tx) error{
		func(ctx context.Context, tx *postgres.Tx) error { return tx.LockPayments(ctx, ids) },
		func(ctx context.Context, tx *postgres.Tx) error {
			return tx.LockPaymentsAndUsers(ctx, nil, []postgres.User{{EventID: "e", UserID: "u"}})
		},
		func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.LockSectionsOf.Take(ctx, tx, ids)
			return err
		},
		func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.LockTickets.Take(ctx, tx, ids)
			return err
		},
		func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.LockTransfers.Take(ctx, tx, ids)
			return err
		},
		func(ctx context.Context, tx *postgres.Tx) error {
			return tx.LockMembers(ctx, []postgres.Member{{PlanID: "p", UserID: "u"}})
		},
	}
	for i, first := range inOrder {
		for j, second := range inOrder {
			err := database.InTx(t.Context(), func(ctx context.Context, tx *postgres.Tx) error {
				if err := first(ctx, tx); err != nil {
					return err
				}
				return second(ctx, tx)
			})
			if j < i {
				require.ErrorIs(t, err, postgres.ErrLockOrder, "%d after %d", j, i)
			} else {
				require.NoError(t, err, "%d after %d", j, i)
			}
		}
	}
}
