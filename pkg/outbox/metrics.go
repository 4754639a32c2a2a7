package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
)

const (
	measureEvery = 5 * time.Second
	// countLimit is the number at which counting rows stops: a larger number would tell no more.
	countLimit = 100_000
)

// Every replica reports the whole table, whether or not its relay publishes it. Only stalledGauge
// comes from the relay that publishes. The gauges of the table have no labels; they are vectors
// so that they can be removed while the table cannot be read, since the last values would be taken
// for current ones.
var (
	lagGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_outbox_lag_seconds", Help: "Age of the oldest event that is not published yet and not parked.",
	}, nil)
	rowsGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_outbox_rows", Help: "Events that are not published yet, counted up to 100,000.",
	}, nil)
	parkedGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_outbox_parked_keys", Help: "Keys of which the broker refused an event for good; they wait for an operator.",
	}, nil)
	knownGauge = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_outbox_known", Help: "1 while this replica can read the outbox, else 0.",
	})
	stalledGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_outbox_stalled_partitions", Help: "Partitions to which nothing can be published at present; reported by the serving relay.",
	}, []string{"topic"})
)

func updateStalledGauge(s *stalls) {
	counts := make(map[string]int)
	for p, st := range s.byPartition {
		counts[p.topic] += 0
		if st.recoveredAt.IsZero() {
			counts[p.topic]++
		}
	}
	for topic, n := range counts {
		stalledGauge.WithLabelValues(topic).Set(float64(n))
	}
}

func clearStalledGauge(s *stalls) {
	for p := range s.byPartition {
		stalledGauge.WithLabelValues(p.topic).Set(0)
	}
}

func (r *Relay) startMetrics(ctx context.Context) (stop func()) {
	return loop.Start(ctx, measureEvery, func(ctx context.Context) {
		if err := r.measure(ctx, nil); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "outbox not measured", "error", err)
		}
	})
}

// measure sets the gauges from the table, or removes them if the table cannot be read. now is nil
// for the database's clock; only tests set it.
func (r *Relay) measure(ctx context.Context, now *time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var rows, parked float64
	err := postgres.Err(r.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM (SELECT FROM outbox LIMIT $1) AS first)::float8, (SELECT count(*) FROM outbox_parked)::float8`,
		countLimit).Scan(&rows, &parked))
	var oldest time.Duration
	if err == nil {
		oldest, err = OldestAge(ctx, r.pool, "", now)
	}
	if err != nil {
		for _, g := range []*prometheus.GaugeVec{rowsGauge, parkedGauge, lagGauge} {
			g.Reset()
		}
		knownGauge.Set(0)
		return err
	}
	rowsGauge.WithLabelValues().Set(rows)
	parkedGauge.WithLabelValues().Set(parked)
	lagGauge.WithLabelValues().Set(oldest.Seconds())
	knownGauge.Set(1)
	return nil
}

// OldestAge returns the age of the oldest event of a topic ("": of any topic) that is neither
// published nor parked; 0 when there is none. now, if set, replaces the database's clock.
func OldestAge(ctx context.Context, pool *pgxpool.Pool, topic string, now *time.Time) (time.Duration, error) {
	var seconds float64
	err := pool.QueryRow(ctx, `
		SELECT coalesce((SELECT extract(epoch FROM coalesce($2::timestamptz, clock_timestamp()) - o.created_at)::float8
		                 FROM outbox AS o
		                 WHERE $1 IN ('', o.topic) AND (o.topic, o.key) NOT IN (SELECT topic, key FROM outbox_parked)
		                 ORDER BY o.id LIMIT 1), 0)`, topic, now).Scan(&seconds)
	if err != nil {
		return 0, postgres.Err(err)
	}
	return time.Duration(max(0, seconds) * float64(time.Second)), nil
}
