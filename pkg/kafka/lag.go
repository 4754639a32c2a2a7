package kafka

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/loop"
)

// lagEvery is the interval at which the brokers are asked for the lag.
const lagEvery = 10 * time.Second

// lagGauge is computed from the brokers' offsets, so that a stuck partition is visible. It is
// reported by the replica to which the partition is assigned.
var lagGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Name: "urr_consumer_lag", Help: "Records of a partition that the group has not committed yet.",
}, []string{"group", "topic", "partition"})

// lagKnown shows whether the lag can be measured. A partition whose lag cannot be measured has no
// value in lagGauge, since the last value would be taken for the current one.
var lagKnown = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Name: "urr_consumer_lag_known", Help: "1 while this replica measures the lag of all its partitions of the group, else 0.",
}, []string{"group"})

var (
	// The value is the time of the first failure. An age would have to be updated all the time.
	failingSince = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_consumer_failing_since_timestamp_seconds",
		Help: "When the first attempt at the partition's next records failed; absent while none fails.",
	}, []string{"group", "topic", "partition"})
	deadLetters = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_dead_letters_total", Help: "Records put aside, by the group that could not process them and the topic they came from.",
	}, []string{"group", "topic"})
	refusedRecords = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_records_refused_total", Help: "Records that the service that writes the topic has not signed, by group and topic.",
	}, []string{"group", "topic"})
)

func (p partition) labels(group string) []string {
	return []string{group, p.topic, strconv.Itoa(int(p.id))}
}

// startLagMetrics measures the lag at an interval until stop is called.
func (c *Consumer) startLagMetrics(ctx context.Context, client *kgo.Client) (stop func()) {
	admin := kadm.NewClient(client)
	end := loop.Start(ctx, c.lagEvery, func(ctx context.Context) { c.measureLag(ctx, admin) })
	return func() {
		end()
		lagKnown.DeleteLabelValues(c.group)
	}
}

func (c *Consumer) measureLag(ctx context.Context, admin *kadm.Client) {
	ctx, cancel := context.WithTimeout(ctx, lagEvery)
	defer cancel()
	lags := make(map[partition]int64)
	groups, err := admin.Lag(ctx, c.cfg.prefixedGroup(c.group))
	group := groups[c.cfg.prefixedGroup(c.group)]
	for topic, parts := range group.Lag {
		for id, lag := range parts {
			if lag.Err == nil {
				lags[partition{c.cfg.withoutPrefix(topic), id}] = max(0, lag.Lag)
			}
		}
	}
	c.reportLag(lags, err == nil && group.Error() == nil)
}

// reportLag exports the lag of the partitions that are assigned to this replica. A partition that
// is not in lags gets no value.
func (c *Consumer) reportLag(lags map[partition]int64, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := answered
	for part := range c.workers {
		lag, ok := lags[part]
		if !ok {
			known = false
			lagGauge.DeleteLabelValues(part.labels(c.group)...)
			continue
		}
		lagGauge.WithLabelValues(part.labels(c.group)...).Set(float64(lag))
	}
	var value float64
	if known {
		value = 1
	}
	lagKnown.WithLabelValues(c.group).Set(value)
}
