package rpc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// maxLines is the largest number of lines logged per second for one method and error code. There
// may be ten thousand SOLD_OUT per second, which the metrics count.
const maxLines = 10

// failureLog logs one line per failed call, at most maxLines per second. The next line has the
// number of omitted lines as `suppressed`.
type failureLog struct {
	out *slog.Logger

	mu    sync.Mutex
	lines map[string]*lineCount
}

type lineCount struct {
	sec        int64
	written    int
	suppressed int
}

func newFailureLog(out *slog.Logger) *failureLog {
	return &failureLog{out: out, lines: make(map[string]*lineCount)}
}

func (f *failureLog) logFailure(ctx context.Context, level slog.Level, method, peer string, start time.Time, e *errs.Error) {
	now := time.Now()
	suppressed, ok := f.allowLine(method+" "+e.Reason, now.Unix())
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("method", method), slog.String("caller", peer),
		slog.String("kind", string(e.Kind)), slog.String("reason", e.Reason),
		slog.Duration("took", now.Sub(start)))
	if len(e.Fields) > 0 {
		attrs = append(attrs, slog.Any("fields", e.Fields))
	}
	if cause := e.Cause(); cause != nil {
		attrs = append(attrs, slog.String("error", cause.Error()))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	f.out.LogAttrs(ctx, level, "call failed", attrs...)
}

// allowLine reports whether a line may be logged now, and how many were omitted before it.
func (f *failureLog) allowLine(key string, sec int64) (suppressed int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.lines[key]
	if c == nil {
		c = &lineCount{}
		f.lines[key] = c
	}
	if c.sec != sec {
		c.sec, c.written = sec, 0
	}
	if c.written >= maxLines {
		c.suppressed++
		return 0, false
	}
	c.written++
	suppressed, c.suppressed = c.suppressed, 0
	return suppressed, true
}
