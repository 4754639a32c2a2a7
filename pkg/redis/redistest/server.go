package redistest

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
)

// Server is a redis-server of one test, which may kill it. When it is started again it has the same
// address and data.
type Server struct {
	t    testing.TB
	dir  string
	addr string
	args []string
	cmd  *exec.Cmd
}

// StartServer starts a redis-server with these arguments. It is killed when the test ends.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	return startServer(t, backendtest.FreeAddr(t), args)
}

func startServer(t testing.TB, addr string, args []string) *Server {
	t.Helper()
	testkit.SkipIfShort(t, "tests that start servers")
	s := &Server{t: t, dir: t.TempDir(), addr: addr, args: args}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

func (s *Server) Addr() string { return s.addr }

// AppendLog returns the file to which a server with `--appendonly yes` writes each change, until
// the server rewrites the log.
func (s *Server) AppendLog() string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("redis-server at %s has the append-only files %v (%v), not one", s.addr, found, err)
	}
	return found[0]
}

// Client makes a client of the server, closed when the test ends. It fails while the server is down.
func (s *Server) Client() *goredis.Client {
	s.t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: s.addr, DisableIdentity: true})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Start starts the server again after Kill, and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	host, port := s.hostPort()
	// Does not use the context of the test: a cleanup kills the server at the end.
	args := append([]string{"--port", port, "--bind", host, "--dir", s.dir, "--save", ""}, s.args...)
	s.cmd = exec.CommandContext(context.Background(), "redis-server", args...) //nolint:gosec // a test's own arguments
	if err := processtest.Launch(s.cmd); err != nil {
		s.t.Fatalf("redis-server must be installed, as `make backends` does: %v", err)
	}
	s.awaitAnswer()
}

func (s *Server) awaitAnswer() {
	s.t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: s.addr, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	testkit.UntilNoError(s.t, func() error { return client.Ping(context.Background()).Err() }, "redis-server at %s", s.addr)
}

// Kill kills the server, as a crash does. It has no effect on one that has ended.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// StartReplica starts a server that replicates this one, and returns when it has all data.
func (s *Server) StartReplica() *Server {
	s.t.Helper()
	host, port := s.hostPort()
	l, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		s.t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
	replica := startServer(s.t, addr, append(slices.Clone(s.args), "--replicaof", host, port))
	replica.awaitSync()
	return replica
}

func (s *Server) awaitSync() {
	s.t.Helper()
	client := s.Client()
	testkit.Until(s.t, func() bool {
		role, err := client.Do(s.t.Context(), "role").Slice()
		return err == nil && len(role) > 3 && role[3] == "connected"
	}, "the replica at %s has no link to its master", s.addr)
}

// Detach ends the replication. The replica keeps its data.
func (s *Server) Detach() {
	s.t.Helper()
	if err := s.Client().Do(s.t.Context(), "replicaof", "no", "one").Err(); err != nil {
		s.t.Fatalf("detach the replica at %s: %v", s.addr, err)
	}
}

// TakeOver moves a detached replica to the address of its former master, which must have ended.
// This is what clients see of a failover behind one address.
func (s *Server) TakeOver(master *Server) {
	s.t.Helper()
	_, port := master.hostPort()
	if err := s.Client().ConfigSet(s.t.Context(), "port", port).Err(); err != nil {
		s.t.Fatalf("move the replica at %s to port %s: %v", s.addr, port, err)
	}
	s.addr = master.addr
	s.awaitAnswer()
}

// Fill fills the memory of a server that does not evict keys up to its limit. free empties it
// again. Meanwhile the limit is a quarter lower, since buffers that the server frees would make
// room for a moment.
func (s *Server) Fill() (free func()) {
	s.t.Helper()
	client, ctx := s.Client(), s.t.Context()
	var keys []string
	for size := 1 << 16; size >= 64; {
		key := "filler-" + strconv.Itoa(len(keys))
		err := client.Set(ctx, key, strings.Repeat("x", size), 0).Err()
		switch {
		case err == nil:
			keys = append(keys, key)
		case goredis.HasErrorPrefix(err, "OOM"):
			size /= 2
		default:
			s.t.Fatalf("fill redis-server at %s: %v", s.addr, err)
		}
	}
	limit := s.memoryLimit(ctx)
	s.limitMemory(ctx, limit*3/4)
	return func() {
		if err := client.Del(ctx, keys...).Err(); err != nil {
			s.t.Fatalf("free memory of redis-server at %s: %v", s.addr, err)
		}
		s.limitMemory(ctx, limit)
	}
}

func (s *Server) memoryLimit(ctx context.Context) int64 {
	s.t.Helper()
	values, err := s.Client().ConfigGet(ctx, "maxmemory").Result()
	if err != nil {
		s.t.Fatalf("read the limit of memory of redis-server at %s: %v", s.addr, err)
	}
	limit, err := strconv.ParseInt(values["maxmemory"], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return limit
}

func (s *Server) limitMemory(ctx context.Context, bytes int64) {
	s.t.Helper()
	if err := s.Client().ConfigSet(ctx, "maxmemory", strconv.FormatInt(bytes, 10)).Err(); err != nil {
		s.t.Fatalf("limit the memory of redis-server at %s: %v", s.addr, err)
	}
}

func (s *Server) hostPort() (host, port string) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	return host, port
}
