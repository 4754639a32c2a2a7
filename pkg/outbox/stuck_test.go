package outbox_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
)

func manyEvents(topic string, n int) []outbox.Event {
	events := make([]outbox.Event, n)
	for i := range events {
		events[i] = event(topic, fmt.Sprint("key-", i), int64(i))
	}
	return events
}

func failTopic(topic string, err error) func(kafka.Record) error {
	return func(r kafka.Record) error {
		if r.Topic == topic {
			return err
		}
		return nil
	}
}

// More rows than a batch holds wait for a missing topic. Events of other topics are published, and
// the rows follow when the topic exists.
func TestStuckRowsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	m := fakePublisher{fail: failTopic("gone", kerr.UnknownTopicOrPartition)}
	require.NoError(t, insert(t.Context(), pool, manyEvents("gone", 600)...))
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1)))
	run(t, pool, &m, outbox.Options{})
	testkit.Until(t, func() bool { return pending(t, pool) == 600 }, "the other topic's event is published")
	require.Equal(t, []int64{1}, m.versions(t, "k"))
	m.recover()
	waitEmpty(t, pool)
	require.Len(t, m.published(), 601)
}

// An event that the broker permanently refuses delays the later events of its key; the partition
// goes on.
func TestRefusedEventParksItsKey(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	m := fakePublisher{fail: refuseVersion(2, kerr.MessageTooLarge)}
	require.NoError(t, insert(t.Context(), pool, event("t", "a", 1), event("t", "a", 2), event("t", "b", 7), event("t", "a", 3)))
	run(t, pool, &m, outbox.Options{})
	testkit.Until(t, func() bool { return pending(t, pool) == 2 }, "only the rest of the key waits")
	require.Equal(t, []int64{1}, m.versions(t, "a"))
	require.Equal(t, []int64{7}, m.versions(t, "b"))
}

// A hanging transaction in any database of the server holds back the snapshot horizon. Events wait
// for it no longer than the longest of our own transactions lasts.
func TestHangingWriterDelaysEventsOnlyBriefly(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	hangingTransaction(t, pool)
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1), event("t", "l", 1)))
	backdate(t, pool, "k", "-1 hour") // however slow the machine is
	backdate(t, pool, "l", "10 s")
	var m fakePublisher
	published, blocked, err := newRelay(t, pool, &m, outbox.Options{}).Pass(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, published)
	require.True(t, blocked)
	require.Equal(t, []int64{1}, m.versions(t, "l"))
}

// If a broker refuses a batch because of one record, only the key of that record is parked.
func TestRefusedBatchParksOnlyTheRefusedKey(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	m := batchRefuser{refuse: `"epoch":77`}
	events := manyEvents("t", 120)
	events = append(events, event("t", "key-77", 1000), event("t", "key-78", 1000))
	require.NoError(t, insert(t.Context(), pool, events...))
	run(t, pool, &m, outbox.Options{})
	testkit.Until(t, func() bool { return pending(t, pool) == 2 }, "only the refused event and what follows it wait")
	require.Empty(t, m.versions(t, "key-77"))
	require.Equal(t, []int64{78, 1000}, m.versions(t, "key-78"))

	var out bytes.Buffer
	require.NoError(t, outbox.Command(t.Context(), pool, nil, &out))
	require.Regexp(t, `t +key-77 +2 +\S+ +\S+ +TESTED +MESSAGE_TOO_LARGE`, out.String())
	m.recover()
	out.Reset()
	require.NoError(t, outbox.Command(t.Context(), pool, []string{"redrive", "t", "key-77"}, &out))
	require.Equal(t, "1 keys are published again, each in its order\n", out.String())
	waitEmpty(t, pool)
	require.Equal(t, []int64{77, 1000}, m.versions(t, "key-77"))
}

func TestRedrivenKeyIsParkedAgainWhenRefused(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	m := fakePublisher{fail: refuseVersion(1, kerr.InvalidRecord)}
	require.NoError(t, insert(t.Context(), pool, event("t", "a", 1), event("t", "a", 2), event("t", "b", 1)))
	run(t, pool, &m, outbox.Options{})
	parked := func() []outbox.ParkedKey {
		keys, err := outbox.ParkedKeys(t.Context(), pool)
		require.NoError(t, err)
		return keys
	}
	testkit.Until(t, func() bool { return len(parked()) == 2 }, "both keys are parked")
	since := parked()[0].At
	n, err := outbox.Redrive(t.Context(), pool, "t", "")
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	testkit.Until(t, func() bool { return len(parked()) == 2 }, "and again")
	require.True(t, parked()[0].At.After(since))
	require.Equal(t, 3, pending(t, pool))
}

func TestCommandUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"dance"}, {"redrive"}, {"redrive", "t", "k", "l"}, {"parked", "t"}} {
		require.ErrorIs(t, outbox.Command(t.Context(), nil, args, nil), outbox.ErrUsage)
	}
}

func TestUnreadableRowParksItsKey(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	var m fakePublisher
	require.NoError(t, insert(t.Context(), pool, event("t", "a", 1), event("t", "b", 1)))
	_, err := pool.Exec(t.Context(), `UPDATE outbox SET headers = '[]' WHERE key = 'a'`)
	require.NoError(t, err)
	run(t, pool, &m, outbox.Options{})
	testkit.Until(t, func() bool { return pending(t, pool) == 1 && len(m.published()) == 1 }, "the other key is published")
}

// Only the failing partition waits. This holds even while the attempt to publish one of its records
// hangs.
func TestHangingPartitionDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	const partitions = 3
	partitionOf := func(key string) int32 { return kafka.KeyHash([]byte(key)) % partitions }
	m := fakePublisher{partitions: partitions, fail: func(r kafka.Record) error {
		if partitionOf(string(r.Key)) == 1 {
			return context.DeadlineExceeded
		}
		return nil
	}}
	prober := blockingProber{entered: make(chan struct{}, 1), release: make(chan struct{})}
	require.NoError(t, insert(t.Context(), pool, manyEvents("t", 30)...))
	run(t, pool, &m, outbox.Options{Prober: &prober, Batch: 10})
	t.Cleanup(func() { close(prober.release) })
	testkit.Receive(t, prober.entered)
	stuck := 0
	for i := range 30 {
		if partitionOf(fmt.Sprint("key-", i)) == 1 {
			stuck++
		}
	}
	require.NoError(t, insert(t.Context(), pool, manyEvents("u", 30)...))
	testkit.Until(t, func() bool { return pending(t, pool) == 2*stuck }, "the other partitions are published")
}

// A topic about which nothing is known counts as one partition; later each partition is separate.
func TestStalledTopicNarrowsToItsPartition(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	m := fakePublisher{fail: failTopic("t", kerr.UnknownTopicOrPartition)}
	require.NoError(t, insert(t.Context(), pool, manyEvents("t", 30)...))
	run(t, pool, &m, outbox.Options{})
	testkit.Until(t, func() bool { return m.failures() > 3 }, "it is tried again")
	m.set(3, func(r kafka.Record) error {
		if kafka.KeyHash(r.Key)%3 == 0 {
			return kerr.NotLeaderForPartition
		}
		return nil
	})
	testkit.Until(t, func() bool {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox WHERE key_hash % 3 <> 0`).Scan(&n))
		return n == 0
	}, "the other partitions are published")
	require.NotZero(t, pending(t, pool))
	m.recover()
	waitEmpty(t, pool)
}

// hangingTransaction begins a transaction that has its txid and does nothing until the test ends.
func hangingTransaction(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
}

func backdate(t *testing.T, pool *pgxpool.Pool, key, by string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `UPDATE outbox SET created_at = created_at - $2::text::interval WHERE key = $1`, key, by)
	require.NoError(t, err)
}

func refuseVersion(v int64, err error) func(kafka.Record) error {
	return func(r kafka.Record) error {
		if strings.Contains(string(r.Value), fmt.Sprintf(`"epoch":%d`, v)) {
			return err
		}
		return nil
	}
}
