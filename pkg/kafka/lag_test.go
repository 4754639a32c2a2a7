package kafka_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
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
	lagIs := func(want float64) func() bool {
		return func() bool { got, ok := lag(t, group, topic); return ok && got == want }
	}
	testkit.Until(t, lagIs(2), "the second is stuck, the third behind it")
	close(release)
	testkit.Until(t, lagIs(0), "all is committed")
	stop()
	_, ok := lag(t, group, topic)
	require.False(t, ok)
}

// While the brokers do not answer, the partition has no lag and the replica says so.
func TestUnknownLag(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicOf(t, 1), kafkatest.Name("group")
	publish(t, topic, "k", "1")
	network := &cuttable{}
	c := consumer(t, group, topic, kafka.Each(func(context.Context, kafka.Record) error { return nil }))
	c.LagEvery(50 * time.Millisecond)
	c.DialBy(network.dial)
	run(t, c)
	known := func(want float64) bool {
		got, ok := metricstest.MetricSum(t, "urr_consumer_lag_known", map[string]string{"group": group})
		return ok && got == want
	}
	testkit.Until(t, func() bool {
		_, ok := lag(t, group, topic)
		return ok && known(1)
	}, "the lag is measured")
	network.cut()
	testkit.Until(t, func() bool { return known(0) }, "the brokers do not answer")
	_, ok := lag(t, group, topic)
	require.False(t, ok, "the last value is not reported")
	network.restore()
	testkit.Until(t, func() bool {
		_, ok := lag(t, group, topic)
		return ok && known(1)
	}, "the lag is measured again")
}

// cuttable is a network whose connections can be cut.
type cuttable struct {
	mu    sync.Mutex
	away  bool
	conns []net.Conn
}

func (n *cuttable) dial(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, host)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if n.away {
		_ = conn.Close()
		return nil, errors.New("cut")
	}
	n.conns = append(n.conns, conn)
	return conn, nil
}

func (n *cuttable) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = true
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.conns = nil
}

func (n *cuttable) restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = false
}

// lag reads urr_consumer_lag of partition 0.
func lag(t *testing.T, group, topic string) (value float64, ok bool) {
	t.Helper()
	return metricstest.MetricSum(t, "urr_consumer_lag", map[string]string{"group": group, "topic": topic, "partition": "0"})
}
