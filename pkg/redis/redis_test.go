package redis_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
)

var add = goredis.NewScript(`redis.call('INCRBY', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])`)

func TestScriptsOnSingleAndCluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		client goredis.UniversalClient
		event  string
	}{
		"single":  {redistest.Open(t), redistest.Prefix(t)},
		"cluster": {redistest.OpenCluster(t), redistest.ClusterPrefix(t)},
	} {
		t.Run(name, func(t *testing.T) {
			keys := []string{"{" + c.event + "}:a", "{" + c.event + "}:b"}
			require.NoError(t, add.Run(t.Context(), c.client, keys, 5).Err())
			require.NoError(t, add.Run(t.Context(), c.client, keys, 5).Err())
			n, err := c.client.Get(t.Context(), keys[0]).Int()
			require.NoError(t, err)
			require.Equal(t, 10, n)
		})
	}
}

func TestPrefixCleanup(t *testing.T) {
	t.Parallel()
	client := redistest.Open(t)
	var key string
	t.Run("use", func(t *testing.T) {
		key = "{" + redistest.Prefix(t) + "}:x"
		require.NoError(t, client.Set(t.Context(), key, 1, 0).Err())
	})
	require.ErrorIs(t, client.Get(t.Context(), key).Err(), goredis.Nil)
}

// dialSilentServer connects to a server that reads and never answers.
func dialSilentServer(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	return near, nil
}

// A Redis that accepts connections and never answers must not delay a visitor: a command is tried
// twice, 500 ms each.
func TestSilentServerFailsFast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, err := redis.OpenOver(redis.Config{Addrs: []string{"127.0.0.1:1"}, PoolSize: 2}, dialSilentServer)
		require.NoError(t, err, "the start does not depend on Redis")
		defer func() { _ = client.Close() }()
		begun := time.Now()
		require.ErrorIs(t, redis.Err(client.Get(t.Context(), "x").Err()), errs.ErrUnavailable)
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)
	})
}

// dials counts the attempts to connect.
type dials struct {
	goredis.Hook

	n atomic.Int64
}

func (d *dials) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.n.Add(1)
		return next(ctx, network, addr)
	}
}

func (d *dials) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

func (d *dials) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// A command has two attempts. For each, the client must try to connect once, instead of five times
// with pauses as by the library's default.
func TestUnreachableServerFailsAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	client, err := redis.Open(t.Context(), redis.Config{Addrs: []string{l.Addr().String()}, PoolSize: 32})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	d := &dials{}
	client.AddHook(d)
	require.ErrorIs(t, redis.Err(client.Get(t.Context(), "x").Err()), errs.ErrUnavailable)
	require.LessOrEqual(t, d.n.Load(), int64(2))
}

func TestErrKeepsReplies(t *testing.T) {
	t.Parallel()
	client, key := redistest.Open(t), redistest.Prefix(t)
	err := client.Get(t.Context(), key).Err()
	require.ErrorIs(t, redis.Err(err), goredis.Nil)
	require.NotErrorIs(t, redis.Err(err), errs.ErrUnavailable)
	require.NoError(t, client.Set(t.Context(), key, "text", 0).Err())
	wrong := redis.Err(client.Incr(t.Context(), key).Err())
	require.Error(t, wrong)
	require.NotErrorIs(t, wrong, errs.ErrUnavailable, "a wrong command is our own fault")
	require.NoError(t, redis.Err(nil))
}

// The error of a server that refuses for now is Unavailable, even if a caller has wrapped it.
func TestErrOfARefusingServer(t *testing.T) {
	t.Parallel()
	replica := redistest.StartServer(t).StartReplica().Client()
	for name, err := range map[string]error{
		"a command": replica.Set(t.Context(), "k", "v", 0).Err(),
		"a script":  replica.Eval(t.Context(), `return redis.call("SET", KEYS[1], "v")`, []string{"k"}).Err(),
	} {
		require.ErrorContains(t, err, "READONLY", name)
		require.ErrorIs(t, redis.Err(err), errs.ErrUnavailable, name)
		require.ErrorIs(t, redis.Err(fmt.Errorf("admit: %w", err)), errs.ErrUnavailable, name)
	}
}

func TestOpenNeedsAnAddress(t *testing.T) {
	t.Parallel()
	_, err := redis.Open(t.Context(), redis.Config{})
	require.ErrorContains(t, err, "REDIS_ADDRS")
}

// A changed password needs no restart: new connections use the content of the file.
func TestNewConnectionsUsePasswordFile(t *testing.T) {
	t.Parallel()
	admin := redistest.Open(t)
	user := redistest.Prefix(t)
	change := func(password string) {
		require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", user, "resetpass", ">"+password, "on", "+@all", "~*").Err())
	}
	t.Cleanup(func() { require.NoError(t, admin.Do(context.Background(), "ACL", "DELUSER", user).Err()) })
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	change("first")
	client, err := redis.Open(t.Context(), redis.Config{
		Addrs: []string{backendtest.Redis(t)}, Username: user, Password: "first", PasswordFile: file, PoolSize: 1,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	requireUser := func() {
		t.Helper()
		var got any
		testkit.UntilNoError(t, func() (err error) { // a closed connection is noticed at its next use
			got, err = client.Do(t.Context(), "ACL", "WHOAMI").Result()
			return err
		})
		require.Equal(t, user, got)
	}
	requireUser()
	reconnect := func() {
		require.NoError(t, admin.Do(t.Context(), "CLIENT", "KILL", "USER", user).Err())
		requireUser()
	}
	require.NoError(t, os.WriteFile(file, []byte("second"), 0o600))
	change("second")
	reconnect()
	require.NoError(t, os.Remove(file))
	reconnect()
}
