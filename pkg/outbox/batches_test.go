package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres/postgrestest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// While there is a backlog, batches grow, and each is followed by the next at once.
func TestBacklogIsPublishedInGrowingBatches(t *testing.T) {
	t.Parallel()
	var events []outbox.Event
	for v := range int64(50) {
		events = append(events, event("topic", fmt.Sprint("k", v%5), v))
	}
	m := publishAll(t, events)
	require.Equal(t, 2, m.sizes[0])
	largest := slices.Max(m.sizes) // the growth starts again after a pause of the process
	require.GreaterOrEqual(t, largest, 4)
	require.LessOrEqual(t, largest, 16)
	for k := range int64(5) {
		require.Equal(t, []int64{k, k + 5, k + 10, k + 15, k + 20, k + 25, k + 30, k + 35, k + 40, k + 45}, m.versions(t, fmt.Sprint("k", k)))
	}
}

// Small events let the batches grow; the large ones after them are published in small batches.
func TestGrownBatchesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	var events []outbox.Event
	for v := range int64(62) {
		events = append(events, event("topic", "k", v))
		if v >= 30 { // the batches before have 2, 4, 8 and 16 events
			events[v].Payload = caller(strings.Repeat("x", 500<<10), v)
		}
	}
	m := publishAll(t, events)
	for i, bytes := range m.bytes {
		require.LessOrEqual(t, bytes, outbox.MaxBytes, "%d records", m.sizes[i])
	}
	versions := m.versions(t, "k")
	require.Len(t, versions, len(events))
	require.True(t, slices.IsSorted(versions))
}

// publishAll publishes a backlog; its first batch has two events.
func publishAll(t *testing.T, events []outbox.Event) *sizedPublisher {
	t.Helper()
	pool := postgrestest.New(t, outbox.Migrations)
	for chunk := range slices.Chunk(events, 8) { // transactions short enough for a slow machine
		require.NoError(t, insert(t.Context(), pool, chunk...))
	}
	waitForOlderTransactions(t, pool)
	var m sizedPublisher
	_, stop := run(t, pool, &m, outbox.Options{Poll: time.Hour, Batch: 2})
	waitEmpty(t, pool)
	stop()
	return &m
}

// The rows in flight are looked up in a hash, also if their number is unknown to the plan.
func TestRowsInFlightAreHashed(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	results, err := conn.Conn().PgConn().Exec(t.Context(), `
		SET plan_cache_mode = force_generic_plan;
		PREPARE read AS `+outbox.ReadRows+`;
		EXPLAIN EXECUTE read ('{1}', 500)`).ReadAll()
	require.NoError(t, err)
	var plan strings.Builder
	for _, line := range results[2].Rows {
		plan.Write(line[0])
		plan.WriteByte('\n')
	}
	require.Equal(t, 2, strings.Count(plan.String(), "hashed SubPlan"), "parked keys and rows in flight\n%s", plan.String())
}

// Prefetched rows wait when one of the rows before them is not published.
func TestRowsReadAheadWaitForFailedOnes(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	var events []outbox.Event
	for v := range int64(12) {
		events = append(events, event("topic", "k", v))
	}
	require.NoError(t, insert(t.Context(), pool, events...))
	waitForOlderTransactions(t, pool)
	var m fakePublisher
	var failed sync.Once
	m.set(1, func(r kafka.Record) (err error) {
		var c commonv1.Caller
		if err := kafka.Decode(r, &c); err != nil {
			return err
		}
		if c.GetEpoch() == 3 {
			failed.Do(func() { err = errors.New("not acked") })
		}
		return err
	})
	run(t, pool, &m, outbox.Options{Batch: 2})
	waitEmpty(t, pool)
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, m.versions(t, "k"))
}
