// Package telemetry declares Prometheus metrics and writes JSON logs with trace and request ids.
// Services declare their metrics in Prometheus's default registry, by Counter, Gauge or promauto.
// Package otlp exports that registry and the traces.
package telemetry

import (
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Enabled reports whether traces are collected. Instrumentation of hot paths checks it once when it
// is built: a span costs a few microseconds even if nobody collects it.
func Enabled() bool {
	_, ok := otel.GetTracerProvider().(*trace.TracerProvider)
	return ok
}

// MetricsHandler serves the default registry in Prometheus's format.
func MetricsHandler() http.Handler {
	return promhttp.InstrumentMetricHandler(prometheus.DefaultRegisterer, promhttp.Handler())
}

// Version is the revision the binary was built from, "devel" when unknown; "-dirty" marks
// uncommitted changes.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	var rev, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return "devel"
	}
	return rev + dirty
}
