package events_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
)

// free draws the first section of a new snapshot: a dot for each free seat, an x for each other.
func free(t *testing.T, svc *storetest.Service) string {
	t.Helper()
	snap, err := svc.EventStore.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	return draw(snap)
}

func draw(snap event.Snapshot) string {
	seats := make([]byte, snap.Event.Sections[0].Capacity)
	for i := range seats {
		if seats[i] = 'x'; snap.IsFree(i) {
			seats[i] = '.'
		}
	}
	return string(seats)
}

// begin begins a transaction and has the database assign a transaction id to it.
func begin(t *testing.T, svc *storetest.Service) pgx.Tx {
	t.Helper()
	tx, err := svc.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	return tx
}

const (
	sell   = `UPDATE seats SET status = 'SOLD', reservation_id = gen_random_uuid(), held_until = NULL WHERE seat_id = $1`
	giveUp = `UPDATE seats SET status = 'FREE', reservation_id = NULL, held_until = NULL WHERE seat_id = $1`
)

func change(t *testing.T, tx pgx.Tx, sql, seat string) {
	t.Helper()
	_, err := tx.Exec(t.Context(), sql, seat)
	require.NoError(t, err)
}

func TestSnapshotReadsOnlyChanges(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 6)))
	svc.Put(t, storetest.Spec("other", event.Assigned, storetest.Rows("A", 70, 1, 6)))
	otherReplica := svc.Replica(t)
	require.Equal(t, "......", free(t, svc))
	require.Equal(t, "......", free(t, otherReplica))
	read := svc.Statements.Sent("TakenSeats")

	r := svc.MustHoldSeats(t, "u", "A-1-1", "A-1-2")
	paid := svc.MustHoldSeats(t, "v", "A-1-4")
	svc.Confirm(t, paid, storetest.Payment(paid))
	for _, replica := range []*storetest.Service{svc, otherReplica} {
		require.Equal(t, "xx.x..", free(t, replica))
	}
	require.NoError(t, svc.Reservations.Cancel(t.Context(), "u", "e", r.ID))
	for _, replica := range []*storetest.Service{svc, otherReplica} {
		require.Equal(t, "...x..", free(t, replica))
	}
	require.Equal(t, read, svc.Statements.Sent("TakenSeats"), "no replica has read all seats again")

	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 90, 1, 6))
	s.Title = "Another title"
	_, err := otherReplica.Events.Put(t.Context(), s.ID, s.Spec, nil)
	require.NoError(t, err)
	snap, err := svc.EventStore.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, "Another title", snap.Event.Title)
	require.EqualValues(t, 90, snap.Event.Sections[0].Price)
	require.EqualValues(t, 1, snap.Sold)
}

// A snapshot has changes that commit late, even if their transaction id is below those read before.
func TestSnapshotSeesWhatCommitsLate(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)))
	early, late := begin(t, svc), begin(t, svc)
	change(t, early, sell, "A-1-1")
	change(t, late, sell, "A-1-2")
	require.NoError(t, late.Commit(t.Context()))
	require.Equal(t, ".x..", free(t, svc))
	read := svc.Statements.Sent("TakenSeats")
	third := begin(t, svc)
	change(t, third, sell, "A-1-3")
	require.NoError(t, third.Commit(t.Context()))
	require.Equal(t, ".xx.", free(t, svc))
	require.NoError(t, early.Commit(t.Context()))
	require.Equal(t, "xxx.", free(t, svc))
	require.Equal(t, read, svc.Statements.Sent("TakenSeats"), "only changes are read")
}

// Two transactions change one seat; that with the lower id commits last. Since a third transaction
// is running, the first change is read twice. It must not overwrite the second one.
func TestSnapshotKeepsTheOrderOfASeat(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)))
	require.Equal(t, "....", free(t, svc))
	second, running, first := begin(t, svc), begin(t, svc), begin(t, svc)
	change(t, first, sell, "A-1-1")
	require.NoError(t, first.Commit(t.Context()))
	require.Equal(t, "x...", free(t, svc))
	change(t, second, giveUp, "A-1-1")
	require.NoError(t, second.Commit(t.Context()))
	require.Equal(t, "....", free(t, svc))
	require.Equal(t, "....", free(t, svc))
	change(t, running, sell, "A-1-4")
	require.NoError(t, running.Commit(t.Context()))
	require.Equal(t, "...x", free(t, svc))
}

// A replica reads all seats if changes were deleted before it has read them.
func TestSnapshotAfterPruning(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	laggingReplica := svc.Replica(t)
	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4))
	hour := int32(3600) // longer than the test
	s.HoldSeconds = &hour
	svc.Put(t, s)
	require.Equal(t, "....", free(t, laggingReplica))
	svc.MustHoldSeats(t, "u", "A-1-1")
	require.Equal(t, "x...", free(t, svc))
	read := svc.Statements.Sent("TakenSeats")
	testkit.Until(t, func() bool {
		return svc.Count(t, `SELECT count(*) FROM seat_changes WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())`) == 0
	}, "the transactions of other databases that keep changes back end")
	for remaining := int64(1); remaining > 0; {
		svc.Clock.Advance(31 * time.Second)
		require.NoError(t, svc.EventStore.PruneChanges(t.Context()))
		require.NoError(t, laggingReplica.EventStore.PruneChanges(t.Context()), "the other one finds nothing to do")
		require.Equal(t, "x...", free(t, svc))
		remaining = svc.Count(t, `SELECT count(*) FROM seat_changes`)
	}
	svc.MustHoldSeats(t, "v", "A-1-2")
	require.NoError(t, svc.EventStore.PruneChanges(t.Context()))
	require.EqualValues(t, 1, svc.Count(t, `SELECT count(*) FROM seat_changes`), "not before half a minute")
	require.Equal(t, "xx..", free(t, svc))
	require.Equal(t, read, svc.Statements.Sent("TakenSeats"), "who has read need not read all")
	require.Equal(t, "xx..", free(t, laggingReplica))
	require.Equal(t, read+1, svc.Statements.Sent("TakenSeats"))
}

// Restored rows of another server have transaction ids that this server has not reached yet.
func TestRestoredChangesAreIgnored(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)))
	require.Equal(t, "....", free(t, svc))
	_, err := svc.Pool.Exec(t.Context(), `INSERT INTO seat_changes (xid, event_id, idx, states) VALUES ('9000000000', 'e', '{0}', '{-1}')`)
	require.NoError(t, err)
	require.Equal(t, "....", free(t, svc))
	require.NoError(t, svc.EventStore.PruneChanges(t.Context()))
	require.Zero(t, svc.Count(t, `SELECT count(*) FROM seat_changes`))
}

// Transactions of random lengths change random seats, while two replicas read. In the end both know
// every change, and none has read all seats.
func TestSnapshotsUnderConcurrentChanges(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	replicas := []*storetest.Service{svc, svc.Replica(t)}
	for _, r := range replicas {
		require.Len(t, free(t, r), 20)
	}
	read := svc.Statements.Sent("TakenSeats")
	ctx, stop := context.WithCancel(t.Context())
	changes, rounds := 8, 40
	if testing.Short() {
		rounds = 10
	}
	done := make(chan []error, 1)
	go func() {
		defer stop()
		done <- storetest.Concurrently(changes, func(int) error { return changeAtRandom(t.Context(), svc, rounds) })
	}()
	for _, err := range storetest.Concurrently(len(replicas), func(i int) error {
		for ctx.Err() == nil {
			if _, err := replicas[i].EventStore.Snapshot(t.Context(), "e"); err != nil {
				return err
			}
		}
		return nil
	}) {
		require.NoError(t, err)
	}
	for _, err := range <-done {
		require.NoError(t, err)
	}
	seen := []string{free(t, replicas[0]), free(t, replicas[1])}
	require.Equal(t, read, svc.Statements.Sent("TakenSeats"))
	allSeats := free(t, svc.Replica(t)) // a new replica reads all seats
	require.Equal(t, []string{allSeats, allSeats}, seen)
}

// changeAtRandom changes two seats per transaction, in ascending order, with pauses before each
// change and before the commit.
func changeAtRandom(ctx context.Context, svc *storetest.Service, rounds int) error {
	for range rounds {
		err := pgx.BeginFunc(ctx, svc.Pool, func(tx pgx.Tx) error {
			first := rand.N(10) + 1
			for _, seat := range []int{first, first + 1 + rand.N(9)} {
				sql := sell
				if rand.N(2) == 0 {
					sql = giveUp
				}
				if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id(), pg_sleep(0.004 * random())`); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, sql, fmt.Sprintf("A-1-%d", seat)); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, `SELECT pg_sleep(0.004 * random())`)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
