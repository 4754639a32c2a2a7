// Package telemetry sets up observability: OpenTelemetry traces and metrics over OTLP when an
// endpoint is configured, Prometheus metrics always, and JSON logs with trace and request ids.
// Services declare their metrics in Prometheus's default registry, by Counter, Gauge or promauto;
// the OTLP export reads the same registry, so that no metric is declared twice.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	promotel "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

const exportInterval = 15 * time.Second

// Setup installs the W3C propagator and, when endpoint is not empty, OTLP export for the service
// name. The endpoint is a URL (http://host:4317, https://…) or a bare host:port, which is plain
// text. OTEL_TRACES_SAMPLER selects the sampler. The returned function flushes and stops the
// export. An endpoint that does not answer never delays the service; it is logged.
func Setup(ctx context.Context, name, endpoint string, log *slog.Logger) (func(context.Context) error, error) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	if endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	endpoint, err := collector(endpoint)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("telemetry not exported", "error", err.Error())
	}))
	res, err := resource.Merge(resource.Default(), resource.NewSchemaless(
		attribute.String("service.name", name),
		attribute.String("service.namespace", "urr"),
		attribute.String("service.version", Version()),
	))
	if err != nil {
		return nil, fmt.Errorf("telemetry: resource: %w", err)
	}
	spans, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("telemetry: traces: %w", err)
	}
	figures, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: metrics: %w", err), spans.Shutdown(ctx))
	}
	tp := trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(res))
	mp := metric.NewMeterProvider(metric.WithResource(res), metric.WithReader(metric.NewPeriodicReader(figures,
		metric.WithInterval(exportInterval), metric.WithProducer(promotel.NewMetricProducer()))))
	otel.SetTracerProvider(tp)
	otel.SetMeterProvider(mp)
	return func(ctx context.Context) error {
		return errors.Join(tp.Shutdown(ctx), mp.Shutdown(ctx))
	}, nil
}

// Enabled reports whether Setup installed an export. Instrumentation of hot paths checks it once
// when it is built: a span costs a few microseconds even if nobody collects it.
func Enabled() bool {
	_, ok := otel.GetTracerProvider().(*trace.TracerProvider)
	return ok
}

// collector completes and checks the endpoint's URL. The exporters would silently replace an
// invalid one by their default.
func collector(endpoint string) (string, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT=%q: must be http(s)://host:port", endpoint)
	}
	return endpoint, nil
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
