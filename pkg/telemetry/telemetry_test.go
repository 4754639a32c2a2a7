package telemetry_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/telemetry"
)

func line(t *testing.T, b *bytes.Buffer) map[string]any {
	t.Helper()
	m := make(map[string]any)
	require.NoError(t, json.Unmarshal(b.Bytes(), &m))
	b.Reset()
	return m
}

func TestLoggerAddsContextIDs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, "ticket", "info")
	require.NoError(t, err)

	log.Debug("hidden")
	require.Zero(t, out.Len())
	log.Info("plain")
	m := line(t, &out)
	require.Equal(t, "ticket", m["service"])
	require.NotContains(t, m, "trace_id")
	require.NotContains(t, m, "request_id")

	tid, err := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	require.NoError(t, err)
	sid, err := trace.SpanIDFromHex("b7ad6b7169203331")
	require.NoError(t, err)
	ctx := trace.ContextWithSpanContext(telemetry.WithRequestID(t.Context(), "req-1"),
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: tid, SpanID: sid}))
	log.With("seat", "A-1-1").WarnContext(ctx, "taken")
	m = line(t, &out)
	require.Equal(t, tid.String(), m["trace_id"])
	require.Equal(t, sid.String(), m["span_id"])
	require.Equal(t, "req-1", m["request_id"])
	require.Equal(t, "A-1-1", m["seat"])

	log.WithGroup("sql").InfoContext(ctx, "grouped", "rows", 1)
	require.EqualValues(t, 1, line(t, &out)["sql"].(map[string]any)["rows"])
}

func TestLoggerRefusesUnknownLevels(t *testing.T) {
	t.Parallel()
	_, err := telemetry.NewLogger(&bytes.Buffer{}, "x", "loud")
	require.EqualError(t, err, `LOG_LEVEL="loud": must be one of debug, info, warn, error`)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	require.Empty(t, telemetry.RequestID(t.Context()))
	require.Empty(t, telemetry.RequestID(telemetry.WithRequestID(t.Context(), "")))
}

func TestMetricsHandler(t *testing.T) {
	t.Parallel()
	for range 2 { // a second handler, as in tests of several apps, must not collide
		w := httptest.NewRecorder()
		telemetry.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), "go_goroutines")
	}
}

func TestVersionIsNeverEmpty(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, telemetry.Version())
}

func TestVersionIsALabel(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	telemetry.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Contains(t, w.Body.String(), `urr_build_info{version="`+telemetry.Version()+`"} 1`)
}
