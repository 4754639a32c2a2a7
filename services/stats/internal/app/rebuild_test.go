package app_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/app"
)

func TestMain(m *testing.M) {
	processtest.Main(m, func() int {
		return lifecycle.Main("stats", app.Run, app.Migrate, app.Kafka(), app.Rebuild(), app.Audit())
	})
}

// environment returns the environment variables of a child process, with its own address.
func (w *installation) environment(t *testing.T) map[string]string {
	t.Helper()
	env := kafkatest.Variables()
	maps.Copy(env, map[string]string{
		"DATABASE_URL": w.cfg.Postgres.URL.Reveal(), "KAFKA_BROKERS": w.cfg.Kafka.Brokers[0],
		"KAFKA_TOPIC_PREFIX": w.cfg.Kafka.TopicPrefix, "KAFKA_GROUP_PREFIX": w.cfg.Kafka.GroupPrefix,
		"GRPC_ADDR": backendtest.FreeAddr(t), "RPC_PLAIN": "development", "RPC_ACCEPT": "gateway:" + key.Reveal(), "TICKET_ADDR": w.cfg.Ticket.Addr, "TICKET_RPC_KEY": key.Reveal(),
		"DRAIN": "0s",
	})
	return env
}

// traffic publishes events until stop is called, which returns the number of reservations.
func (w *installation) traffic(t *testing.T) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	var publishing errgroup.Group
	ticker := time.NewTicker(5 * time.Millisecond)
	publishing.Go(func() error {
		defer ticker.Stop()
		for ; ctx.Err() == nil; n++ {
			at := time.Date(2026, 11, 21, 14, n%60, 0, 0, time.UTC).AddDate(0, 0, -n%200)
			recs := append(recordsOf(t, reservations, fmt.Sprint("r", n), reservation("e", "RESERVATION_CREATED", 2, at), reservation("e", "RESERVATION_CONFIRMED", 2, at)),
				recordsOf(t, payments, fmt.Sprint("p", n), payment("PAYMENT_CONFIRMED", 3000, at), payment("PAYMENT_REFUNDED", 1000, at))...)
			if err := w.producer.Publish(context.WithoutCancel(ctx), recs...); err != nil {
				return err
			}
			<-ticker.C
		}
		return nil
	})
	return func() int {
		cancel()
		require.NoError(t, publishing.Wait())
		return n
	}
}

func (w *installation) rebuild(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := app.Rebuild().Run(t.Context(), &w.cfg, args, &out)
	return out.String(), err
}

// requireCreated waits until n reservations are counted, in total, by minute and by quarter.
func (w *installation) requireCreated(t *testing.T, n int) {
	t.Helper()
	testkit.UntilNoError(t, func() error {
		var total, minutes, quarters int
		err := w.pool.QueryRow(t.Context(), `
			SELECT (SELECT amount FROM totals WHERE event_id = 'e' AND figure = 'created'), (SELECT sum(amount) FROM minutes WHERE event_id = 'e' AND figure = 'created'),
			       (SELECT sum(amount) FROM quarters WHERE event_id = 'e' AND figure = 'created')`).
			Scan(&total, &minutes, &quarters)
		if err == nil && (total != n || minutes != n || quarters != n) {
			err = fmt.Errorf("%d in total, %d by minute and %d by quarter, of %d", total, minutes, quarters, n)
		}
		return err
	})
}

func (w *installation) schemas(t *testing.T) []string {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), `SELECT nspname FROM pg_namespace WHERE nspname LIKE 'figures%' ORDER BY 1`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// Figures are rebuilt repeatedly while events come in. The stored acts of operators are kept.
func TestRebuildBesideTraffic(t *testing.T) {
	t.Parallel()
	w := newInstallation(t)
	w.serve(t)
	w.publish(t, operators, "act", &eventsv1.AuditEvent{
		Type: "OPERATOR_ACTED", ActId: "01990f5e-7b5a-7c3e-9d1a-000000000001", UserId: "operator", OccurredAt: timestamppb.Now(),
	})
	w.publish(t, reservations, "bad", []byte("{"))
	stop := w.traffic(t)
	acts := func() (n int) {
		require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit_acts`).Scan(&n))
		return n
	}
	testkit.Until(t, func() bool { return acts() == 1 }, "the act is kept")
	for range 2 {
		out, err := w.rebuild(t)
		require.NoError(t, err, out)
		require.Contains(t, out, " 0 differences\nswapped\n")
		require.Equal(t, []string{"figures"}, w.schemas(t))
	}
	n := stop()
	w.requireCreated(t, n)
	require.Equal(t, 1, acts())

	_, err := w.pool.Exec(t.Context(), `UPDATE totals SET amount = amount + 1 WHERE figure = 'created'; DELETE FROM minutes WHERE figure = 'confirmed';
		UPDATE quarters SET times = times + 1 WHERE figure = 'created'`)
	require.NoError(t, err)
	out, err := w.rebuild(t)
	require.ErrorContains(t, err, "the figures differ")
	require.Contains(t, out, fmt.Sprintf("created : %d of %d, counted anew %d of %d\n", n+1, n, n, n))
	require.Contains(t, out, " infinity created : ", "a quarter of an hour")
	require.NotContains(t, out, "swapped")
	out, err = w.rebuild(t, "--accept-differences")
	require.NoError(t, err, out)
	w.requireCreated(t, n)
	out, err = w.rebuild(t)
	require.NoError(t, err, out)
	_, err = w.rebuild(t, "--all")
	require.ErrorContains(t, err, "usage: stats rebuild")
}

// A replica, and later the rebuild, is killed during the swap. Nothing is lost or counted twice.
func TestKillsDuringTheSwap(t *testing.T) {
	t.Parallel()
	w := newInstallation(t)
	require.NoError(t, app.Migrate(t.Context(), &w.cfg, nil))
	replica := processtest.Start(t, w.environment(t))
	processtest.Start(t, w.environment(t))
	stop := w.traffic(t)
	testkit.Until(t, func() bool {
		var n int
		return w.pool.QueryRow(t.Context(), `SELECT count(*) FROM consumer_offsets`).Scan(&n) == nil && n > 0
	}, "counting has begun")

	release := w.holdSwap(t)
	done := make(chan error, 1)
	go func() {
		out, err := w.rebuild(t)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		done <- err
	}()
	w.untilSwapWaits(t)
	_, err := w.rebuild(t)
	require.ErrorContains(t, err, "another rebuild is running")
	replica.Kill()
	processtest.Start(t, w.environment(t))
	release()
	require.NoError(t, <-done)

	release = w.holdSwap(t)
	rebuilding := processtest.Start(t, w.environment(t), "rebuild")
	w.untilSwapWaits(t)
	rebuilding.Kill()
	release()
	out, err := w.rebuild(t)
	for err != nil && strings.Contains(err.Error(), "another rebuild is running") { // the killed rebuild's lock is not released yet
		out, err = w.rebuild(t)
	}
	require.NoError(t, err, out)
	n := stop()
	w.requireCreated(t, n)
	out, err = w.rebuild(t)
	require.NoError(t, err, out)
	require.Contains(t, out, " 0 differences\n")
}

// holdSwap locks a table that a swap must lock too. A swap that has begun waits for release().
func (w *installation) holdSwap(t *testing.T) (release func()) {
	t.Helper()
	tx, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE redriven_letters IN ROW EXCLUSIVE MODE`)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// untilSwapWaits waits until a swap has stopped live counting and waits for the lock of holdSwap.
func (w *installation) untilSwapWaits(t *testing.T) {
	t.Helper()
	testkit.Until(t, func() bool {
		var n int
		err := w.pool.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%LOCK TABLE figures.redriven_letters%'`).Scan(&n)
		return err == nil && n > 0
	}, "the swap is in progress")
}
