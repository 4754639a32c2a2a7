package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Counter registers a counter with these labels.
func Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// CounterOf registers a counter with one label whose values are known. All its series start at 0,
// so that an alert sees the first event as an increase.
func CounterOf(name, help, label string, values ...string) *prometheus.CounterVec {
	counter := Counter(name, help, label)
	for _, v := range values {
		counter.WithLabelValues(v)
	}
	return counter
}

// Gauge registers a gauge with these labels.
func Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Prometheus subtracts the time of the scrape from this value, which gives the clock skew of this
// process. So no process needs to know another clock.
var _ = promauto.NewGaugeFunc(prometheus.GaugeOpts{
	Name: "urr_clock_timestamp_seconds", Help: "This process's clock at the scrape, in Unix seconds.",
}, func() float64 { return float64(time.Now().UnixMicro()) / 1e6 })
