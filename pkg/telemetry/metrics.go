package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Counter declares a counter for each combination of labels.
func Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// CounterOf is Counter for one label whose values are known. All series start at 0, so that the first
// event is an increase, which an alert sees.
func CounterOf(name, help, label string, values ...string) *prometheus.CounterVec {
	counter := Counter(name, help, label)
	for _, v := range values {
		counter.WithLabelValues(v)
	}
	return counter
}

// Gauge declares a gauge for each combination of labels.
func Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// The difference between the value and the time of its scrape is this process's clock skew against
// Prometheus. So no process needs to know another clock.
var _ = promauto.NewGaugeFunc(prometheus.GaugeOpts{
	Name: "urr_clock_timestamp_seconds", Help: "This process's clock at the scrape, in Unix seconds.",
}, func() float64 { return float64(time.Now().UnixMicro()) / 1e6 })
