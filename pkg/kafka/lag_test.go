package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/waittest"
)

// The lag counts the broker's uncommitted records; a partition that this process lost is no longer
// reported.
func TestLag(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicOf(t, 1), kafkatest.Name("group")
	publish(t, topic, "k", "1", "2", "3")
	release := make(chan struct{})
	c := consumer(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "2" {
			<-release
		}
		return nil
	}))
	c.LagEvery(50 * time.Millisecond)
	stop := run(t, c)
	is := func(want float64) func() bool {
		return func() bool { got, ok := lag(t, group, topic); return ok && got == want }
	}
	waittest.Until(t, is(2), "the second is stuck, the third behind it")
	close(release)
	waittest.Until(t, is(0), "all is committed")
	stop()
	_, ok := lag(t, group, topic)
	require.False(t, ok)
}

// lag reads urr_consumer_lag of partition 0.
func lag(t *testing.T, group, topic string) (value float64, ok bool) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "urr_consumer_lag" && labels["group"] == group && labels["topic"] == topic && labels["partition"] == "0" {
				return m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}
