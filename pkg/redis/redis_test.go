package redis_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/redis/redistest"
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

func TestPrefixesAreSwept(t *testing.T) {
	t.Parallel()
	client := redistest.Open(t)
	var key string
	t.Run("use", func(t *testing.T) {
		key = "{" + redistest.Prefix(t) + "}:x"
		require.NoError(t, client.Set(t.Context(), key, 1, 0).Err())
	})
	require.ErrorIs(t, client.Get(t.Context(), key).Err(), goredis.Nil)
}

// A Redis that accepts connections and never answers must not hold a visitor up.
func TestASilentServerFailsFast(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	client, err := redis.Open(t.Context(), redis.Config{Addrs: []string{l.Addr().String()}, PoolSize: 2})
	require.NoError(t, err, "the start does not depend on Redis")
	defer func() { _ = client.Close() }()
	begun := time.Now()
	err = client.Get(t.Context(), "x").Err()
	require.ErrorIs(t, redis.Err(err), errs.ErrUnavailable)
	require.Less(t, time.Since(begun), 6*time.Second)
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

// The client's own habit is five attempts with pauses between them, for each of the command's two.
func TestAServerThatIsGoneFailsAtOnce(t *testing.T) {
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

func TestErrLeavesAnswersAlone(t *testing.T) {
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

func TestOpenNeedsAnAddress(t *testing.T) {
	t.Parallel()
	_, err := redis.Open(t.Context(), redis.Config{})
	require.ErrorContains(t, err, "REDIS_ADDRS")
}
