package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
)

// moneyProcess is one process of a replica. It dies by losing all its connections forever: what it
// has written stays, and nothing that its code does afterwards reaches anybody. So it can die or
// stall before and after everything that it sends, not only at the failpoints in the code.
type moneyProcess struct {
	world *money
	name  string
	dead  atomic.Bool
	end   func() // waits for work in progress, and closes the pool

	mu    sync.Mutex
	rand  *rand.Rand
	conns map[net.Conn]struct{}
}

// Of 10,000 steps, the number at which a process dies, and at which it stalls.
const (
	deathsPer10k = 6
	stallsPer10k = 12
)

// errDead is the error of every call from or to a dead process.
var errDead = errs.ErrUnavailable.Wrap(errors.New("the process is dead"))

// step is called before and after everything that leaves the process. It may kill or stall the
// process. alive is false once it is dead.
func (p *moneyProcess) step() (alive bool) {
	if p.dead.Load() {
		return false
	}
	if !p.world.faults.Load() {
		return true
	}
	p.mu.Lock()
	n, long := p.rand.IntN(10_000), time.Duration(p.rand.IntN(100))*time.Second
	p.mu.Unlock()
	switch {
	case n < deathsPer10k:
		p.kill()
		return false
	case n < deathsPer10k+stallsPer10k:
		p.world.count("stall " + p.name)
		p.world.advance(long)
		time.Sleep(time.Duration(n) * time.Millisecond) // other processes continue
	}
	return !p.dead.Load()
}

// stop stops a payment process for some minutes, in which the other process takes over its work.
// Only one process is stopped at a time.
func (p *moneyProcess) stop() {
	if !p.world.stopped.CompareAndSwap(false, true) {
		return
	}
	defer p.world.stopped.Store(false)
	p.world.count("long stop")
	other := p.world.payment(0)
	if other.moneyProcess == p {
		other = p.world.payment(1)
	}
	for range 8 {
		p.world.advance(time.Minute)
		other.code.Sweep(context.Background())
	}
}

func (p *moneyProcess) kill() {
	if p.dead.Swap(true) {
		return
	}
	p.world.count("death " + p.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// dial connects to PostgreSQL.
func (p *moneyProcess) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Load() {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	p.conns[conn] = struct{}{}
	return &moneyConn{Conn: conn, process: p}, nil
}

// moneyConn is a connection of a process to PostgreSQL.
type moneyConn struct {
	net.Conn

	process *moneyProcess
}

func (c *moneyConn) Write(b []byte) (int, error) {
	if !c.process.step() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	if !c.process.step() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *moneyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.process.dead.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *moneyConn) Close() error {
	c.process.mu.Lock()
	delete(c.process.conns, c.Conn)
	c.process.mu.Unlock()
	return c.Conn.Close()
}

// configure makes a pool use the process's connections, and reports SQL errors that no code
// expects: deadlocks, violated constraints and invalid values.
func (p *moneyProcess) configure(c *pgxpool.Config) {
	c.ConnConfig.DialFunc = p.dial
	c.ConnConfig.Tracer = moneyTracer{p}
}

type moneyTracer struct{ process *moneyProcess }

// statementKey is the context key of the SQL statement that is traced.
type statementKey struct{}

func (t moneyTracer) report(ctx context.Context, err error) {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return
	}
	switch pe.Code[:2] {
	case "22", "23", "40", "42":
		t.process.world.violate("SQL error %s in %s: %s %s %v", pe.Code, t.process.name, pe.Message, pe.Detail, ctx.Value(statementKey{}))
	}
}

func (moneyTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	name, _, _ := strings.Cut(d.SQL, "\n")
	return context.WithValue(ctx, statementKey{}, fmt.Sprint(name, d.Args))
}

func (t moneyTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	t.report(ctx, d.Err)
}

func (moneyTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (t moneyTracer) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	t.report(ctx, d.Err)
}

func (moneyTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// moneyServer calls the RPCs of a process without a network.
type moneyServer struct {
	process *moneyProcess
	methods map[string]func(ctx context.Context, decode func(any) error) (any, error)
}

func newMoneyServer(p *moneyProcess, register func(grpc.ServiceRegistrar)) *moneyServer {
	s := &moneyServer{process: p, methods: make(map[string]func(context.Context, func(any) error) (any, error))}
	register(s)
	return s
}

func (s *moneyServer) RegisterService(d *grpc.ServiceDesc, impl any) {
	for _, m := range d.Methods {
		s.methods["/"+d.ServiceName+"/"+m.MethodName] = func(ctx context.Context, decode func(any) error) (any, error) {
			return m.Handler(impl, ctx, decode, nil)
		}
	}
}

// Invoke makes a call. If the process dies during the call, the answer is lost.
func (s *moneyServer) Invoke(ctx context.Context, method string, in, out any, _ ...grpc.CallOption) error {
	if s.process.dead.Load() {
		return errDead
	}
	answer, err := s.methods[method](ctx, func(to any) error {
		proto.Merge(to.(proto.Message), in.(proto.Message)) //nolint:forcetypeassert // generated code
		return nil
	})
	switch {
	case s.process.dead.Load():
		return errDead
	case err != nil:
		s.process.world.expect(s.process, method, err)
		return err
	}
	proto.Merge(out.(proto.Message), answer.(proto.Message)) //nolint:forcetypeassert // generated code
	return nil
}

// NewStream fails: none of the calls is a stream.
func (*moneyServer) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, io.ErrUnexpectedEOF
}
