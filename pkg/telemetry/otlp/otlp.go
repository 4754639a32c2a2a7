// Package otlp exports traces and metrics by OTLP. Only the start of a process imports it: code
// that declares metrics or writes logs needs no exporter.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	promotel "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"urr.guru/pkg/telemetry"
)

const exportInterval = 15 * time.Second

// Setup starts the export of traces and metrics by OTLP for the named service, unless endpoint is
// empty; it always installs the W3C propagator. The endpoint is a URL (http://host:4317, https://…)
// or a bare host:port, which is plain text. OTEL_TRACES_SAMPLER selects the sampler. The metrics
// are those in Prometheus's default registry. The returned function flushes and stops the export.
// An endpoint that does not answer never delays the service; failures are logged.
func Setup(ctx context.Context, name, endpoint string, log *slog.Logger) (func(context.Context) error, error) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	if endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	endpoint, err := checkEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("telemetry not exported", "error", err.Error())
	}))
	res, err := resource.Merge(resource.Default(), resource.NewSchemaless(
		attribute.String("service.name", name),
		attribute.String("service.namespace", "urr"),
		attribute.String("service.version", telemetry.Version()),
	))
	if err != nil {
		return nil, fmt.Errorf("telemetry: resource: %w", err)
	}
	spanExporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("telemetry: traces: %w", err)
	}
	metricExporter, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: metrics: %w", err), spanExporter.Shutdown(ctx))
	}
	tp := trace.NewTracerProvider(trace.WithBatcher(spanExporter), trace.WithResource(res))
	mp := metric.NewMeterProvider(metric.WithResource(res), metric.WithReader(metric.NewPeriodicReader(metricExporter,
		metric.WithInterval(exportInterval), metric.WithProducer(promotel.NewMetricProducer()))))
	otel.SetTracerProvider(tp)
	otel.SetMeterProvider(mp)
	return func(ctx context.Context) error {
		return errors.Join(tp.Shutdown(ctx), mp.Shutdown(ctx))
	}, nil
}

// checkEndpoint completes and checks the URL of the endpoint. The exporters would silently use
// their default for an invalid one.
func checkEndpoint(endpoint string) (string, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT=%q: must be http(s)://host:port", endpoint)
	}
	return endpoint, nil
}
