package outbox_test

import (
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
)

// However many rows wait for a partition, the rows behind them are published in order, also those
// that become visible late.
func TestWalkPassesManyStuckRows(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	_, err := pool.Exec(t.Context(), `CREATE TABLE entity AS SELECT k::text AS id, 0::bigint AS version FROM generate_series(0, 4) k`)
	require.NoError(t, err)
	stick := func(n int) {
		_, err := pool.Exec(t.Context(), `
			INSERT INTO outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
			SELECT gen_random_uuid(), 'gone', 'k', 0, 'TESTED', 1, '{}', '{}' FROM generate_series(1, $1::int)`, n)
		require.NoError(t, err)
	}
	stick(2000)
	m := fakePublisher{fail: failTopic("gone", kerr.UnknownTopicOrPartition)}
	relay := newRelay(t, pool, &m, outbox.Options{Batch: 7})
	relay.Scan(20)
	start(t, relay)
	results := make(chan error, 4)
	for range cap(results) {
		go func() {
			var err error
			for range 25 {
				err = errors.Join(err, change(t.Context(), pool, fmt.Sprint(mathrand.IntN(5))))
			}
			results <- err
		}()
	}
	stick(500)
	for range cap(results) {
		require.NoError(t, <-results)
	}
	testkit.Until(t, func() bool { return pending(t, pool) == 2500 }, "all but the stuck rows are published")
	total := 0
	for k := range 5 {
		for i, v := range m.versions(t, fmt.Sprint(k)) {
			require.Equal(t, int64(i+1), v, "key %d", k)
			total++
		}
	}
	require.Equal(t, 100, total)
	m.recover()
	waitEmpty(t, pool)
}

// The rows of a redriven key are found although the walk has passed them.
func TestRedrivenKeyIsFoundAmongStuckRows(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	m := fakePublisher{fail: func(r kafka.Record) error {
		switch {
		case r.Topic == "gone":
			return kerr.UnknownTopicOrPartition
		case string(r.Key) == "large":
			return kerr.MessageTooLarge
		default:
			return nil
		}
	}}
	require.NoError(t, insert(t.Context(), pool, append(manyEvents("gone", 100), event("t", "large", 1))...))
	relay := newRelay(t, pool, &m, outbox.Options{})
	relay.Scan(10)
	start(t, relay)
	testkit.Until(t, func() bool {
		keys, err := outbox.ParkedKeys(t.Context(), pool)
		require.NoError(t, err)
		return len(keys) == 1
	}, "the key is parked")
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1)))
	testkit.Until(t, func() bool { return pending(t, pool) == 101 }, "the later event is published")
	m.set(0, failTopic("gone", kerr.UnknownTopicOrPartition))
	_, err := outbox.Redrive(t.Context(), pool, "t", "large")
	require.NoError(t, err)
	testkit.Until(t, func() bool { return pending(t, pool) == 100 }, "the key is published")
}
