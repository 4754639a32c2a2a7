package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/rpc/rpctest"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// fakeQueue calls the functions that a test sets; without one it returns an empty message.
type fakeQueue struct {
	queuev1.UnimplementedQueueServiceServer

	check   func(context.Context, *queuev1.LineRequest) (*queuev1.LineResponse, error)
	leave   func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error)
	getLoad func(context.Context, *queuev1.GetLoadRequest) (*queuev1.GetLoadResponse, error)
	watch   func(grpc.ServerStreamingServer[queuev1.WatchLinesResponse]) error
}

func (f *fakeQueue) Check(ctx context.Context, r *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	return f.check(ctx, r)
}

func (f *fakeQueue) Leave(ctx context.Context, r *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
	if f.leave == nil {
		return &queuev1.LeaveResponse{}, nil
	}
	return f.leave(ctx, r)
}

func (f *fakeQueue) GetLoad(ctx context.Context, r *queuev1.GetLoadRequest) (*queuev1.GetLoadResponse, error) {
	if f.getLoad == nil {
		return &queuev1.GetLoadResponse{}, nil
	}
	return f.getLoad(ctx, r)
}

func (f *fakeQueue) WatchLines(_ *queuev1.WatchLinesRequest, s grpc.ServerStreamingServer[queuev1.WatchLinesResponse]) error {
	return f.watch(s)
}

func serve(t *testing.T, f *fakeQueue, opts ...rpctest.Option) queuev1.QueueServiceClient {
	t.Helper()
	return queuev1.NewQueueServiceClient(rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		queuev1.RegisterQueueServiceServer(r, f)
	}, opts...))
}

// logs collects log lines in JSON.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *logs) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []map[string]any
	for line := range strings.Lines(l.buf.String()) {
		m := make(map[string]any)
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		lines = append(lines, m)
	}
	return lines
}
