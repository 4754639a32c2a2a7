package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The difference between the value and the time of its scrape is this process's clock skew against
// Prometheus. So no process needs to know another clock.
var _ = promauto.NewGaugeFunc(prometheus.GaugeOpts{
	Name: "urr_clock_timestamp_seconds", Help: "This process's clock at the scrape, in Unix seconds.",
}, func() float64 { return float64(time.Now().UnixMicro()) / 1e6 })
