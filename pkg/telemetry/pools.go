package telemetry

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Pool has the figures of a connection pool. Acquired, TimedOut and Waited are totals.
type Pool struct {
	Max, Used, Idle int
	// Acquired counts connections handed out. TimedOut counts callers that gave up waiting for one.
	Acquired, TimedOut int64
	// Waited is the total time that callers waited for a connection.
	Waited time.Duration
}

func (p Pool) Plus(q Pool) Pool {
	return Pool{
		Max: p.Max + q.Max, Used: p.Used + q.Used, Idle: p.Idle + q.Idle,
		Acquired: p.Acquired + q.Acquired, TimedOut: p.TimedOut + q.TimedOut, Waited: p.Waited + q.Waited,
	}
}

// WatchPool exports the figures of a pool as metrics until stop is called. read is called at every
// scrape and must not block. The figures of pools with the same name are added.
func WatchPool(name string, read func() Pool) (stop func()) {
	pools.mu.Lock()
	defer pools.mu.Unlock()
	pools.next++
	id := pools.next
	pools.watched[id] = watchedPool{name, read}
	return func() {
		pools.mu.Lock()
		defer pools.mu.Unlock()
		delete(pools.watched, id)
	}
}

var (
	poolLabel       = []string{"pool"}
	poolMax         = prometheus.NewDesc("urr_pool_connections_max", "Maximum number of connections of a pool.", poolLabel, nil)
	poolConnections = prometheus.NewDesc("urr_pool_connections", "Open connections of a pool, by state (used, idle).", []string{"pool", "state"}, nil)
	poolAcquires    = prometheus.NewDesc("urr_pool_acquires_total", "Connections that a pool handed out.", poolLabel, nil)
	poolTimeouts    = prometheus.NewDesc("urr_pool_timeouts_total", "Callers that gave up waiting for a connection of a pool.", poolLabel, nil)
	poolWaits       = prometheus.NewDesc("urr_pool_wait_seconds_total", "Time that callers waited for a connection of a pool.", poolLabel, nil)
)

// pools is declared after the metric descriptions, since its registration reads them.
var pools = newPoolCollector() //nolint:gochecknoglobals // metrics are registered once per process

type poolCollector struct {
	mu      sync.Mutex
	next    int
	watched map[int]watchedPool
}

type watchedPool struct {
	name string
	read func() Pool
}

func newPoolCollector() *poolCollector {
	c := &poolCollector{watched: make(map[int]watchedPool)}
	prometheus.MustRegister(c)
	return c
}

func (*poolCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolMax, poolConnections, poolAcquires, poolTimeouts, poolWaits} {
		out <- d
	}
}

func (c *poolCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	watched := slices.Collect(maps.Values(c.watched))
	c.mu.Unlock()
	sums := make(map[string]Pool)
	for _, w := range watched {
		sums[w.name] = sums[w.name].Plus(w.read())
	}
	for name, p := range sums {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
		}
		counter := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, name)
		}
		gauge(poolMax, float64(p.Max), name)
		gauge(poolConnections, float64(p.Used), name, "used")
		gauge(poolConnections, float64(p.Idle), name, "idle")
		counter(poolAcquires, float64(p.Acquired))
		counter(poolTimeouts, float64(p.TimedOut))
		counter(poolWaits, p.Waited.Seconds())
	}
}
