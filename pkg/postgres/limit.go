package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
)

const (
	// statementCallTimeout is the deadline of a statement whose context has none, as in workers.
	// The server's statement_timeout ends slow statements; only this ends a call on a hanging
	// connection.
	statementCallTimeout = 8 * time.Second
	// pingTimeout is the time limit of the check whether a connection idle for a second still works.
	pingTimeout = 3 * time.Second
)

// deadlineTracer gives a deadline to statements whose context has none. It is a tracer because a
// tracer sees every statement of the pool.
type deadlineTracer struct{ timeout time.Duration }

var (
	_ pgx.QueryTracer = deadlineTracer{}
	_ pgx.BatchTracer = deadlineTracer{}
)

func newTracer(timeout time.Duration) pgx.QueryTracer {
	return multitracer.New(deadlineTracer{timeout}, tracer{})
}

// cancelKey is the context key under which the function that releases the deadline's timer is kept.
type cancelKey struct{}

func (l deadlineTracer) startDeadline(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); ok {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

func (deadlineTracer) releaseDeadline(ctx context.Context) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

func (l deadlineTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return l.startDeadline(ctx)
}

func (l deadlineTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	l.releaseDeadline(ctx)
}

func (l deadlineTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return l.startDeadline(ctx)
}

func (deadlineTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (l deadlineTracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	l.releaseDeadline(ctx)
}
