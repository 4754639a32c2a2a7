package e2e_test

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// span has the fields of an OpenTelemetry span that the tests check.
type span struct {
	service, name, trace, id, parent string
	links                            []string // ids of the traces that it is linked to
}

// traceCollector is an OTLP receiver that keeps every span.
type traceCollector struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []span
	addr  string
}

// startCollector listens on a free port until the test ends.
func startCollector(t *testing.T) *traceCollector {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &traceCollector{addr: l.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	return c
}

func (c *traceCollector) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		service := ""
		for _, attr := range resource.GetResource().GetAttributes() {
			if attr.GetKey() == "service.name" {
				service = attr.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, toSpan(service, s))
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func toSpan(service string, s *tracev1.Span) span {
	out := span{
		service: service, name: s.GetName(), trace: hex.EncodeToString(s.GetTraceId()),
		id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
	}
	for _, link := range s.GetLinks() {
		out.links = append(out.links, hex.EncodeToString(link.GetTraceId()))
	}
	return out
}

// allSpans returns all received spans.
func (c *traceCollector) allSpans() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// spansOf returns the spans of one trace, and the spans linked to it.
func (c *traceCollector) spansOf(trace string) []span {
	return slices.DeleteFunc(c.allSpans(), func(s span) bool { return s.trace != trace && !slices.Contains(s.links, trace) })
}
