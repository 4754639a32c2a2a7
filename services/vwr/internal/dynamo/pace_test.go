package dynamo

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

func TestBacklogRefusesLongWaits(t *testing.T) {
	t.Parallel()
	var b assignBacklog
	require.NoError(t, enter(&b, 10_000)) // nothing is measured yet
	for range 5 {
		b.observeGroup(500, 5*time.Second) // 10 ms for each assign
	}
	err := enter(&b, 1)
	require.ErrorIs(t, err, errs.ErrOverloaded, "behind 10,000 of 10 ms")
	require.GreaterOrEqual(t, errs.From(err).RetryAfter, 90*time.Second)
	b.leave(9_850)
	entered, err := b.enter(80)
	require.ErrorIs(t, err, errs.ErrOverloaded)
	require.Equal(t, 57, entered, "from 150 to 206 of 9.7 ms")
}

func enter(b *assignBacklog, n int) error {
	_, err := b.enter(n)
	return err
}

func TestBacklogSmallGroupsOnlyLowerEstimate(t *testing.T) {
	t.Parallel()
	var b assignBacklog
	b.observeGroup(1, 40*time.Millisecond) // the interval between writes, not the cost of one
	require.NoError(t, enter(&b, 5_000), "after a small group")
	b.observeGroup(100, 10*time.Second)
	require.ErrorIs(t, enter(&b, 1), errs.ErrOverloaded, "the store is slow")
	b.observeGroup(1, 100*time.Microsecond) // the store has recovered
	require.NoError(t, enter(&b, 1), "the store is fast again")
}

func TestPacerKeepsMinimumInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := writePacer{gap: minCounterInterval, last: make(map[string]time.Time)}
		start := time.Now()
		for range 5 {
			require.NoError(t, p.wait(t.Context(), "a"))
		}
		require.Equal(t, 4*minCounterInterval, time.Since(start), "five writes")
		require.NoError(t, p.wait(t.Context(), "b"))
		require.Equal(t, 4*minCounterInterval, time.Since(start), "another event does not wait for the first")
		for i := range 2 * maxPacerEntries {
			require.NoError(t, p.wait(t.Context(), string(rune(i))))
			<-time.After(minCounterInterval + 1)
		}
		require.LessOrEqual(t, len(p.last), maxPacerEntries)
	})
}

func TestBacklogsAreIsolatedAndBounded(t *testing.T) {
	t.Parallel()
	var q assignBacklogs
	require.NoError(t, enter(q.forEvent("busy"), 1))
	q.forEvent("busy").observeGroup(500, 5000*time.Second)
	require.ErrorIs(t, enter(q.forEvent("busy"), 1), errs.ErrOverloaded)
	for i := range 3 * maxBacklogs {
		require.NoError(t, enter(q.forEvent(strconv.Itoa(i)), 1), "another event is not slow")
		q.forEvent(strconv.Itoa(i)).leave(1)
	}
	require.LessOrEqual(t, len(q.byEvent), maxBacklogs)
	require.ErrorIs(t, enter(q.forEvent("busy"), 1), errs.ErrOverloaded, "somebody waits for it, so it is kept")
}

const busy, busyRound = "busy", room.Round(1)

// openStore returns a store with an active round, for tests of unexported fields.
func openStore(t *testing.T) *Store {
	t.Helper()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, Migrate(t.Context(), db, cfg, WithPositionIndex))
	s := New(db, cfg, time.Now)
	c := room.Counters{EventID: busy, Round: busyRound, Active: true, Settings: room.DefaultSettings()}
	require.NoError(t, s.Start(t.Context(), c, 0, nil))
	return s
}

func (s *Store) takeOne(t *testing.T) (room.Record, error) {
	t.Helper()
	return roomtest.Take(t.Context(), s, room.Counters{EventID: busy, Round: busyRound}, "v", uuid.New())
}

// A call that would wait too long fails at once and makes no call to DynamoDB.
func TestTakeRefusesLongWaits(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	b := s.backlogs.forEvent(busy)
	b.perAssign, b.waiting = 10*time.Millisecond, 500
	_, err := s.takeOne(t)
	require.ErrorIs(t, err, errs.ErrOverloaded, "behind 5 s of work")
	b.waiting = 0
	r, err := s.takeOne(t)
	require.NoError(t, err, "behind nobody")
	require.Equal(t, int64(1), r.Position)
	require.Zero(t, b.waiting, "after the last has gone")
}
