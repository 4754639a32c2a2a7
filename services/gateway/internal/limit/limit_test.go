package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/gateway/internal/limit"
)

// clock is a time that stands until it is moved.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_700_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func rules(rate float64, burst int) limit.Rules {
	r := limit.Rule{Rate: rate, Burst: burst}
	return limit.Rules{Network: r, Visitor: r, User: r}
}

func config(r limit.Rules) limit.Config {
	return limit.Config{Mutations: r, Polls: r, Keys: 10_000, Timeout: time.Second, Pause: time.Second}
}

func TestBurstThenRate(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := limit.New(config(rules(2, 3)), nil, c.now)
	s := limit.Subject{User: "alice"}
	for name, take := range map[string]func() error{
		"polls": func() error { return l.Poll(s) }, "mutations": func() error { return l.Mutation(t.Context(), s) },
	} {
		for range 3 {
			require.NoError(t, take(), name)
		}
		err := take()
		require.ErrorIs(t, err, errs.ErrRateLimited, name)
		require.Equal(t, 500*time.Millisecond, errs.From(err).RetryAfter)
	}
	c.pass(499 * time.Millisecond)
	require.Error(t, l.Poll(s))
	c.pass(time.Millisecond)
	require.NoError(t, l.Poll(s))
	require.Error(t, l.Poll(s))
	c.pass(time.Hour) // the burst is full again, and not fuller
	for range 3 {
		require.NoError(t, l.Poll(s))
	}
	require.Error(t, l.Poll(s))
	require.NoError(t, l.Poll(limit.Subject{User: "bob"}))
	require.NoError(t, l.Poll(limit.Subject{Visitor: "alice"}), "a visitor is not the user of that name")
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	l := limit.New(config(limit.Rules{Network: limit.Rule{Rate: 1, Burst: 1}}), nil, newClock().now)
	from := func(s string) error { return l.Poll(limit.Subject{Address: netip.MustParseAddr(s)}) }
	require.NoError(t, from("192.0.2.1"))
	require.Error(t, from("192.0.2.1"))
	require.NoError(t, from("192.0.2.2"))
	require.NoError(t, from("2001:db8:1:2::1"))
	require.Error(t, from("2001:db8:1:2:ffff::1"), "one subscriber has the whole /64")
	require.NoError(t, from("2001:db8:1:3::1"))
	require.NoError(t, l.Poll(limit.Subject{User: "u", Visitor: "v"}), "no rule, no limit")
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	c := newClock()
	cfg := config(rules(1, 5))
	cfg.Keys = 640
	l := limit.New(cfg, nil, c.now)
	for i := range 100_000 {
		require.NoError(t, l.Poll(limit.Subject{User: fmt.Sprint("u", i)}))
	}
	require.LessOrEqual(t, limit.Keys(l), 640)
}

// onRedis is for tests by Redis's own clock: none of their allowance comes back while they run, and Redis may take its time, since
// behind one that is too slow each process counts for itself.
func onRedis(burst int) limit.Config {
	cfg := config(rules(perMinute, burst))
	cfg.Timeout = time.Minute
	return cfg
}

const perMinute = 1.0 / 60

func TestRedisIsShared(t *testing.T) {
	t.Parallel()
	rdb, user := redistest.Open(t), redistest.Prefix(t)
	one, two := limit.New(onRedis(4), rdb, time.Now), limit.New(onRedis(4), rdb, time.Now)
	s := limit.Subject{User: user, Visitor: user}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		allowed int
	)
	for i := range 40 {
		wg.Go(func() {
			l := one
			if i%2 == 0 {
				l = two
			}
			err := l.Mutation(t.Context(), s)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				allowed++
			} else {
				require.ErrorIs(t, err, errs.ErrRateLimited)
				require.Positive(t, errs.From(err).RetryAfter)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 4, allowed)
	ttl, err := rdb.PTTL(t.Context(), "limit:user:"+user).Result()
	require.NoError(t, err)
	require.InDelta(t, 4*time.Minute, ttl, float64(time.Minute))
	require.NoError(t, one.Close(t.Context()))
	require.NoError(t, two.Close(t.Context()))
}

// TestForgottenScripts: a server that restarted knows no script. Not parallel: what others have under way would be counted twice.
func TestForgottenScripts(t *testing.T) {
	rdb, user := redistest.Open(t), redistest.Prefix(t)
	l := limit.New(onRedis(100), rdb, time.Now)
	for range 3 {
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		require.NoError(t, l.Mutation(t.Context(), limit.Subject{User: user}))
	}
	n, err := rdb.Exists(t.Context(), "limit:user:"+user).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), n, "counted in Redis, not here")
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	rdb, user := redistest.OpenCluster(t), redistest.ClusterPrefix(t)
	l := limit.New(onRedis(2), rdb, time.Now)
	s := limit.Subject{User: user, Visitor: user, Address: netip.AddrFrom4([4]byte{10, byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256))})}
	require.NoError(t, l.Mutation(t.Context(), s))
	require.NoError(t, l.Mutation(t.Context(), s))
	require.ErrorIs(t, l.Mutation(t.Context(), s), errs.ErrRateLimited)
}

// TestRedisGone: never no limit at all, and no waiting for a server that is known to be gone.
func TestRedisGone(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("nobody there")
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := newClock()
	l := limit.New(config(rules(1, 3)), rdb, c.now)
	s := limit.Subject{User: "alice"}
	for range 3 {
		require.NoError(t, l.Mutation(t.Context(), s))
	}
	require.ErrorIs(t, l.Mutation(t.Context(), s), errs.ErrRateLimited)
	tried := dials.Load()
	require.Positive(t, tried)
	for range 1000 {
		require.Error(t, l.Mutation(t.Context(), s))
	}
	require.Equal(t, tried, dials.Load(), "it is left alone for a while")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.pass(time.Minute)
	require.ErrorIs(t, l.Mutation(ctx, s), context.Canceled)
}

func TestClient(t *testing.T) {
	t.Parallel()
	proxies, err := limit.ParseProxies([]string{"10.0.0.0/8", " 192.0.2.7", "2001:db8::/32", ""})
	require.NoError(t, err)
	for _, c := range []struct {
		peer, want string
		forwarded  []string
	}{
		{peer: "203.0.113.9:1234", want: "203.0.113.9"},
		{peer: "203.0.113.9:1234", forwarded: []string{"1.2.3.4"}, want: "203.0.113.9"}, // anybody can write that
		{peer: "10.1.1.1:80", forwarded: []string{"1.2.3.4"}, want: "1.2.3.4"},
		{peer: "10.1.1.1:80", forwarded: []string{"9.9.9.9, 1.2.3.4"}, want: "1.2.3.4"}, // what the client wrote stands before
		{peer: "10.1.1.1:80", forwarded: []string{"9.9.9.9", "1.2.3.4, 10.2.2.2"}, want: "1.2.3.4"},
		{peer: "192.0.2.7:80", forwarded: []string{"1.2.3.4:5555"}, want: "1.2.3.4"},
		{peer: "192.0.2.8:80", forwarded: []string{"1.2.3.4"}, want: "192.0.2.8"},
		{peer: "10.1.1.1:80", forwarded: []string{"garbage"}, want: "10.1.1.1"},
		{peer: "10.1.1.1:80", forwarded: []string{"1.2.3.4, unknown"}, want: "10.1.1.1"},
		{peer: "10.1.1.1:80", want: "10.1.1.1"},
		{peer: "10.1.1.1:80", forwarded: []string{"10.3.3.3"}, want: "10.3.3.3"},
		{peer: "[2001:db8::1]:80", forwarded: []string{"2a00::5"}, want: "2a00::5"},
		{peer: "10.1.1.1:80", forwarded: []string{"[2a00::5]"}, want: "2a00::5"},
		{peer: "10.1.1.1:80", forwarded: []string{"[2a00::5]:443"}, want: "2a00::5"},
		{peer: "[::ffff:10.1.1.1]:80", forwarded: []string{"::ffff:1.2.3.4"}, want: "1.2.3.4"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		for _, f := range c.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		require.Equal(t, c.want, proxies.Client(r).String(), "%+v", c)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "@"
	require.False(t, proxies.Client(r).IsValid())
	_, err = limit.ParseProxies([]string{"ten"})
	require.Error(t, err)
}
