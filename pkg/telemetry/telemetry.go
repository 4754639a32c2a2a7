// Package telemetry declares Prometheus metrics and writes JSON logs with trace and request ids.
// Services declare their metrics in Prometheus's default registry, by Counter, Gauge or promauto.
// Package otlp exports that registry and the traces.
package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Enabled reports whether traces are exported. Instrumentation of hot paths checks this once when
// it is built: a span costs some microseconds even if nobody collects it.
func Enabled() bool {
	_, ok := otel.GetTracerProvider().(*trace.TracerProvider)
	return ok
}

// MetricsHandler serves the default registry in Prometheus's format.
func MetricsHandler() http.Handler {
	return promhttp.InstrumentMetricHandler(prometheus.DefaultRegisterer, promhttp.Handler())
}
