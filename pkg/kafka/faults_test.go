package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
)

// sqlstate returns a PostgreSQL error as an adapter wraps it.
func sqlstate(code string) error { return fmt.Errorf("settle: %w", &pgconn.PgError{Code: code}) }

// transientErrors are failures of the platform. No record causes them, so none may be
// dead-lettered.
var transientErrors = map[string]error{
	"connection lost":             sqlstate("08006"),
	"read only":                   sqlstate("25006"),
	"idle in transaction":         sqlstate("25P03"),
	"prepared statement gone":     sqlstate("26000"),
	"no such role":                sqlstate("28000"),
	"wrong password":              sqlstate("28P01"),
	"no such database":            sqlstate("3D000"),
	"serialization failure":       sqlstate("40001"),
	"permission denied":           sqlstate("42501"),
	"no such table":               sqlstate("42P01"),
	"no such column":              sqlstate("42703"),
	"too many connections":        sqlstate("53300"),
	"disk full":                   sqlstate("53100"),
	"lock timeout":                sqlstate("55P03"),
	"statement timeout":           sqlstate("57014"),
	"starting up":                 sqlstate("57P03"),
	"input or output error":       sqlstate("58030"),
	"wrapped as an internal one":  errs.ErrInternal.Wrap(sqlstate("28P01")),
	"end of file":                 io.ErrUnexpectedEOF,
	"deadline":                    context.DeadlineExceeded,
	"another service unavailable": errs.ErrUnavailable,
	"another service overloaded":  errs.ErrOverloaded,
}

// A failover to a server that is not ready must not dead-letter events of paid orders, whatever the
// number of attempts.
func TestTransientErrorsAreRetriedForever(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	const attempts = 45 // more than twice maxAttempts
	for name := range transientErrors {
		publish(t, topic, "k", name)
	}
	var done seen
	failures := map[string]int{}
	c := consumer(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		name := string(r.Value)
		if failures[name]++; failures[name] < attempts {
			return transientErrors[name]
		}
		done.add(r)
		return nil
	}))
	c.NoBackoff()
	run(t, c)
	var want []string
	for _, r := range kafkatest.Read(t, topic, len(transientErrors)) {
		want = append(want, string(r.Value))
	}
	testkit.UntilNoError(t, func() error {
		if got := done.values(); len(got) != len(want) {
			return fmt.Errorf("%d of %d are done; put aside or waiting: %s", len(got), len(want), cmp.Diff(want, got))
		}
		return nil
	})
	require.Empty(t, cmp.Diff(want, done.values()))
}

// Only attempts at the record alone count towards dead-lettering: a batch may fail because of
// another record.
func TestOnlySingleAttemptsCount(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	publish(t, topic, "k", "1", "late", "2", "stuck", "3")
	var done seen
	alone, together := map[string]int{}, 0
	c := consumer(t, kafkatest.Name("group"), topic, kafka.Batch(100, func(_ context.Context, recs []kafka.Record) error {
		if len(recs) > 1 {
			together++
			return errors.New("one of them is bad")
		}
		value := string(recs[0].Value)
		alone[value]++
		if value == "stuck" || value == "late" && alone[value] < 20 {
			return errors.New("bad")
		}
		done.add(recs...)
		return nil
	}))
	c.NoBackoff()
	run(t, c)
	requireEventually(t, []string{"1", "late", "2", "3"}, done.values)
	require.Empty(t, cmp.Diff(map[string]int{"1": 1, "late": 20, "2": 1, "stuck": 20, "3": 1}, alone))
	require.Equal(t, 1, together, "a batch that fails is taken apart at once: others wait behind it")
	require.Equal(t, "stuck", string(kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0].Value))
}

// A batch that exceeds the time of one call must not be retried as a whole forever.
func TestSlowBatchIsProcessedSingly(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]error{
		"deadline": context.DeadlineExceeded, "statement timeout": errs.ErrUnavailable.Wrap(sqlstate("57014")),
		"transaction's limit": errs.ErrUnavailable.Wrap(fmt.Errorf("it took too long: %w", context.DeadlineExceeded)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := kafkatest.TopicOf(t, 1)
			publish(t, topic, "k", "1", "2", "3")
			var done seen
			c := consumer(t, kafkatest.Name("group"), topic, kafka.Batch(100, func(_ context.Context, recs []kafka.Record) error {
				if len(recs) > 1 {
					return slow
				}
				done.add(recs...)
				return nil
			}))
			c.NoBackoff()
			run(t, c)
			requireEventually(t, []string{"1", "2", "3"}, done.values)
		})
	}
}

// Operators see since when a partition fails, and every dead letter, including the first one.
func TestFailureMetrics(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicOf(t, 1), kafkatest.Name("group")
	failed, mended := make(chan struct{}), make(chan struct{})
	var done seen
	c := consumer(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "unreadable" {
			return kafka.Poison(errors.New("bad"))
		}
		select {
		case <-mended:
			done.add(r)
			return nil
		case failed <- struct{}{}:
			return errs.ErrUnavailable
		}
	}))
	c.NoBackoff()
	letters := func() float64 {
		n, ok := metric(t, "urr_dead_letters_total", group, topic)
		require.True(t, ok, "a counter that begins with its first increment is no increase for an alert")
		return n
	}
	require.Zero(t, letters())
	stop := run(t, c)
	publish(t, topic, "k", "unreadable", "waits")
	for range 2 { // the metric is set before the next attempt
		testkit.Receive(t, failed, "the failures")
	}
	since, ok := metric(t, "urr_consumer_failing_since_timestamp_seconds", group, topic)
	require.True(t, ok)
	require.Positive(t, since)
	require.InDelta(t, 1, letters(), 0)

	close(mended)
	requireEventually(t, []string{"waits"}, done.values)
	testkit.Until(t, func() bool {
		_, ok := metric(t, "urr_consumer_failing_since_timestamp_seconds", group, topic)
		return !ok
	}, "the end of the failure")
	stop()
}

// The failure metric of a revoked partition is reported by its next owner.
func TestStoppedConsumerClearsFailureMetric(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicOf(t, 1), kafkatest.Name("group")
	publish(t, topic, "k", "waits")
	failed := make(chan struct{}, 10)
	c := consumer(t, group, topic, kafka.Each(func(context.Context, kafka.Record) error {
		select {
		case failed <- struct{}{}:
		default:
		}
		return errs.ErrUnavailable
	}))
	c.NoBackoff()
	stop := run(t, c)
	for range 2 {
		testkit.Receive(t, failed, "the failures")
	}
	stop()
	_, ok := metric(t, "urr_consumer_failing_since_timestamp_seconds", group, topic)
	require.False(t, ok)
}

// metric returns the value of a metric for a group's topic.
func metric(t *testing.T, name, group, topic string) (value float64, ok bool) {
	t.Helper()
	return metricstest.MetricSum(t, name, map[string]string{"group": group, "topic": topic})
}
