package storetest

import (
	"context"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Statements is a tracer of pgx that counts the statements sent to the database, by query name.
type Statements struct {
	mu    sync.Mutex
	names map[string]int
}

func (s *Statements) count(sql string) {
	if named, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(named, " ")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.names[name]++
	}
}

func (s *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.count(data.SQL)
	return ctx
}

func (*Statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*Statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *Statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.count(data.SQL)
}

func (*Statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Sent returns how many times the query with this name was sent.
func (s *Statements) Sent(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

// Connections is a tracer of pgx that counts the connections of a pool that are in use.
type Connections struct {
	*Statements

	used, peak int
}

func (*Connections) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return ctx
}

func (c *Connections) TraceAcquireEnd(_ context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	if data.Err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.used++
		c.peak = max(c.peak, c.used)
	}
}

func (c *Connections) TraceRelease(*pgxpool.Pool, pgxpool.TraceReleaseData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used--
}

// Peak runs fn and returns the largest number of connections that were in use at once meanwhile.
func (c *Connections) Peak(fn func()) int {
	c.mu.Lock()
	c.peak = c.used
	c.mu.Unlock()
	fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}
