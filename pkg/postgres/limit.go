package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
)

const (
	// callTimeout is what a statement gets whose context has no deadline, as those of workers. The
	// server's statement_timeout ends what is slow; a connection that hangs is ended only by this.
	callTimeout = 8 * time.Second
	// pingTimeout bounds the question whether a connection that was idle for a second still works.
	pingTimeout = 3 * time.Second
)

// limiter gives statements their deadline. It is a tracer because that is where the pool lets one
// in, whoever sends the statement.
type limiter struct{ longest time.Duration }

var _ pgx.QueryTracer = limiter{}

// limited is the tracer of a pool.
func limited(longest time.Duration) pgx.QueryTracer {
	return multitracer.New(limiter{longest}, tracer{})
}

// cancelKey is the context's key of what frees the deadline's timer.
type cancelKey struct{}

func (l limiter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if _, ok := ctx.Deadline(); ok {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, l.longest)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

func (limiter) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}
