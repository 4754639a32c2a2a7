package limit_test

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/limit"
)

func newClock() *testkit.Clock { return testkit.NewClock(time.Unix(1_700_000_000, 0)) }

func rules(rate float64, burst int) limit.Rules {
	r := limit.RateRule{Rate: rate, Burst: burst}
	return limit.Rules{Network: r, Visitor: r, User: r}
}

func config(r limit.Rules) limit.Config {
	return limit.Config{Mutations: r, Polls: r, Keys: 10_000, Timeout: time.Second, Pause: time.Second}
}

func TestBurstThenRate(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := limit.New(config(rules(2, 3)), nil, c.Now)
	s := limit.Subject{User: "alice"}
	for name, take := range map[string]func() error{
		"polls": func() error { return l.CountPoll(s) }, "mutations": func() error { return l.CountMutation(t.Context(), s) },
	} {
		for range 3 {
			require.NoError(t, take(), name)
		}
		err := take()
		require.ErrorIs(t, err, errs.ErrRateLimited, name)
		require.Equal(t, 500*time.Millisecond, errs.From(err).RetryAfter)
	}
	c.Advance(499 * time.Millisecond)
	require.Error(t, l.CountPoll(s))
	c.Advance(time.Millisecond)
	require.NoError(t, l.CountPoll(s))
	require.Error(t, l.CountPoll(s))
	c.Advance(time.Hour) // the burst is refilled, but not beyond its size
	for range 3 {
		require.NoError(t, l.CountPoll(s))
	}
	require.Error(t, l.CountPoll(s))
	require.NoError(t, l.CountPoll(limit.Subject{User: "bob"}))
	require.NoError(t, l.CountPoll(limit.Subject{Visitor: "alice"}), "a visitor is not the user of that name")
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	l := limit.New(config(limit.Rules{Network: limit.RateRule{Rate: 1, Burst: 1}}), nil, newClock().Now)
	from := func(s string) error { return l.CountPoll(limit.Subject{Address: netip.MustParseAddr(s)}) }
	require.NoError(t, from("192.0.2.1"))
	require.Error(t, from("192.0.2.1"))
	require.NoError(t, from("192.0.2.2"))
	require.NoError(t, from("2001:db8:1:2::1"))
	require.Error(t, from("2001:db8:1:2:ffff::1"), "a /64 is one network")
	require.NoError(t, from("2001:db8:1:3::1"))
	require.NoError(t, l.CountPoll(limit.Subject{User: "u", Visitor: "v"}), "no rule, no limit")
}

// A subscriber with many networks of /64 gets no more than sixteen of them.
func TestWidePrefixes(t *testing.T) {
	t.Parallel()
	rdb := redistest.Open(t)
	network := limit.Rules{Network: limit.RateRule{Rate: perDay, Burst: 2}}
	for name, count := range map[string]func(l *limit.Limiter, s limit.Subject) error{
		"polls":     func(l *limit.Limiter, s limit.Subject) error { return l.CountPoll(s) },
		"mutations": func(l *limit.Limiter, s limit.Subject) error { return l.CountMutation(t.Context(), s) },
		"sign-ins":  func(l *limit.Limiter, s limit.Subject) error { return l.CountSignIn(t.Context(), s) },
	} {
		for _, store := range []redis.UniversalClient{nil, rdb} {
			cfg := config(network)
			cfg.Timeout = time.Hour
			l := limit.New(cfg, store, newClock().Now)
			newSite := func() string { // a /48 that other runs do not use
				return fmt.Sprintf("fd%02x:%x:%x", rand.N(1<<8), rand.N(1<<16), rand.N(1<<16))
			}
			site := newSite()
			allowed := func(address func(i int) string) (n int) {
				for i := range 64 {
					if count(l, limit.Subject{Address: netip.MustParseAddr(address(i))}) == nil {
						n++
					}
				}
				return n
			}
			require.Equal(t, 2, allowed(func(int) string { return site + ":ff00::1" }), "%s of a /64", name)
			require.Equal(t, 6, allowed(func(i int) string { return fmt.Sprintf("%s:ff%02x::1", site, i) }), "%s of the rest of a /56", name)
			require.Equal(t, 24, allowed(func(i int) string { return fmt.Sprintf("%s:%02x00::1", site, i) }), "%s of the rest of a /48", name)
			require.NoError(t, count(l, limit.Subject{Address: netip.MustParseAddr(newSite() + "::1")}), "another site")
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	c := newClock()
	cfg := config(rules(1, 5))
	cfg.Keys = 640
	l := limit.New(cfg, nil, c.Now)
	for i := range 100_000 {
		require.NoError(t, l.CountPoll(limit.Subject{User: fmt.Sprint("u", i)}))
	}
	require.LessOrEqual(t, limit.Keys(l), 640)
}

// redisConfig is for tests with the clock of Redis. Its rate is so low that nothing is refilled.
// Its time-out is long, since after a time-out each process would count alone.
func redisConfig(burst int) limit.Config {
	cfg := config(rules(perDay, burst))
	cfg.Timeout = time.Hour
	return cfg
}

const (
	day    = 24 * time.Hour
	perDay = 1.0 / 86_400
)

func TestGatewaysShareRedis(t *testing.T) {
	t.Parallel()
	rdb, user := redistest.Open(t), redistest.Prefix(t)
	first, second := limit.New(redisConfig(4), rdb, newClock().Now), limit.New(redisConfig(4), rdb, newClock().Now)
	s := limit.Subject{User: user, Visitor: user}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		allowed int
	)
	for i := range 40 {
		wg.Go(func() {
			l := first
			if i%2 == 0 {
				l = second
			}
			err := l.CountMutation(t.Context(), s)
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
	ttl, err := rdb.PTTL(t.Context(), limit.UserKey(user)).Result()
	require.NoError(t, err)
	require.InDelta(t, 4*day, ttl, float64(day))
	require.NoError(t, first.Close(t.Context()))
	require.NoError(t, second.Close(t.Context()))
}

// A restarted Redis does not have the script. Then the script is loaded again.
func TestScriptIsReloaded(t *testing.T) {
	t.Parallel()
	rdb, user := redistest.Open(t), redistest.Prefix(t)
	l := limit.New(redisConfig(4), rdb, newClock().Now)
	for range 3 {
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		require.NoError(t, l.CountMutation(t.Context(), limit.Subject{User: user}))
	}
	n, err := rdb.Exists(t.Context(), limit.UserKey(user)).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), n, "counted in Redis, not in the process")
}

// After a restart of a cluster's node its checks are repeated, but not those of other nodes.
func TestScriptIsReloadedOnOneNode(t *testing.T) {
	t.Parallel()
	rdb, prefix := redistest.OpenCluster(t), redistest.ClusterPrefix(t)
	cluster, ok := rdb.(*redis.ClusterClient)
	require.True(t, ok)
	node := func(key string) *redis.Client {
		n, err := cluster.MasterForKey(t.Context(), key)
		require.NoError(t, err)
		return n
	}
	s := limit.Subject{User: prefix + "-0"}
	for i := 0; s.Visitor == "" || node(limit.VisitorKey(s.Visitor)) == node(limit.UserKey(s.User)); i++ {
		s.Visitor = prefix + "-" + strconv.Itoa(i)
	}
	l := limit.New(redisConfig(4), rdb, newClock().Now)
	for range 4 {
		require.NoError(t, node(limit.VisitorKey(s.Visitor)).ScriptFlush(t.Context()).Err())
		require.NoError(t, l.CountMutation(t.Context(), s))
	}
	require.ErrorIs(t, l.CountMutation(t.Context(), s), errs.ErrRateLimited)
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	rdb, user := redistest.OpenCluster(t), redistest.ClusterPrefix(t)
	l := limit.New(redisConfig(2), rdb, newClock().Now)
	s := limit.Subject{User: user, Visitor: user, Address: netip.AddrFrom4([4]byte{10, byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256))})}
	require.NoError(t, l.CountMutation(t.Context(), s))
	require.NoError(t, l.CountMutation(t.Context(), s))
	require.ErrorIs(t, l.CountMutation(t.Context(), s), errs.ErrRateLimited)
}

// Limits also apply without Redis. A Redis that is known to be unavailable causes no wait.
func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("connection refused")
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := newClock()
	l := limit.New(config(rules(1, 3)), rdb, c.Now)
	s := limit.Subject{User: "alice"}
	for range 3 {
		require.NoError(t, l.CountMutation(t.Context(), s))
	}
	require.ErrorIs(t, l.CountMutation(t.Context(), s), errs.ErrRateLimited)
	tried := dials.Load()
	require.Positive(t, tried)
	for range 1000 {
		require.Error(t, l.CountMutation(t.Context(), s))
	}
	require.Equal(t, tried, dials.Load(), "no calls during the pause")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Advance(time.Minute)
	require.ErrorIs(t, l.CountMutation(ctx, s), context.Canceled)
}

// While Redis's memory is full, each gateway counts alone. What Redis has counted before stays.
func TestFullRedisLosesNoLimit(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	first, second := limit.New(redisConfig(4), s.Client(), newClock().Now), limit.New(redisConfig(4), s.Client(), newClock().Now)
	before, meanwhile := limit.Subject{User: "before"}, limit.Subject{User: "meanwhile"}
	for range 4 {
		require.NoError(t, first.CountMutation(t.Context(), before))
	}
	free := s.Fill()
	require.ErrorIs(t, second.CountMutation(t.Context(), before), errs.ErrRateLimited)
	for range 4 {
		require.NoError(t, first.CountMutation(t.Context(), meanwhile))
	}
	for range 100 {
		require.ErrorIs(t, first.CountMutation(t.Context(), meanwhile), errs.ErrRateLimited)
	}
	free()
	require.ErrorIs(t, second.CountMutation(t.Context(), before), errs.ErrRateLimited)
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
		{peer: "203.0.113.9:1234", forwarded: []string{"1.2.3.4"}, want: "203.0.113.9"}, // the peer is not trusted
		{peer: "10.1.1.1:80", forwarded: []string{"1.2.3.4"}, want: "1.2.3.4"},
		{peer: "10.1.1.1:80", forwarded: []string{"9.9.9.9, 1.2.3.4"}, want: "1.2.3.4"}, // the client wrote the first hop
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

// New visitors are limited per network: per IPv6 /64, with four times its rule per /56, and with
// sixteen times per /48, since the owners of these have thousands of networks.
func TestNewVisitors(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := limit.New(limit.Config{NewVisitors: limit.RateRule{Rate: 0.1, Burst: 2}, Keys: 100_000}, nil, c.Now)
	from := func(s string) error {
		_, err := l.CountNewVisitor(t.Context(), netip.MustParseAddr(s))
		return err
	}
	for _, address := range []string{"192.0.2.1", "192.0.2.2", "2001:db8:1:2::1", "::ffff:192.0.2.3"} {
		require.NoError(t, from(address))
		require.NoError(t, from(address))
		err := from(address)
		require.ErrorIs(t, err, errs.ErrRateLimited, address)
		require.Equal(t, 10*time.Second, errs.From(err).RetryAfter)
	}
	require.ErrorIs(t, from("2001:db8:1:2:ffff::1"), errs.ErrRateLimited, "the same /64")
	require.NoError(t, l.CountMutation(t.Context(), limit.Subject{Address: netip.MustParseAddr("192.0.2.1"), Visitor: "known"}))
	c.Advance(10 * time.Second)
	require.NoError(t, from("192.0.2.1"))
	require.ErrorIs(t, from("192.0.2.1"), errs.ErrRateLimited)

	count := func(address func(i int) string) int {
		for i := range 256 {
			if from(address(i)) != nil {
				return i
			}
		}
		return 256
	}
	require.Equal(t, 8, count(func(i int) string { return fmt.Sprintf("2001:db8:2:%x::1", i) }), "many /64 of one /56")
	require.Equal(t, 32, count(func(i int) string { return fmt.Sprintf("2001:db8:3:%02x00::1", i) }), "many /56 of one /48")
}

// All gateways count new visitors together. While Redis is unavailable each counts alone.
func TestNewVisitorsInRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Open(t)
	cfg := limit.Config{NewVisitors: limit.RateRule{Rate: perDay, Burst: 2}, Keys: 1000, Timeout: time.Hour, Pause: time.Second}
	one, two := limit.New(cfg, rdb, newClock().Now), limit.New(cfg, rdb, newClock().Now)
	var random [16]byte
	_, err := crand.Read(random[:])
	require.NoError(t, err)
	random[0] = 0xfd // a private network that other runs do not use
	address := netip.AddrFrom16(random)
	spend := func(l *limit.Limiter) error {
		_, err := l.CountNewVisitor(t.Context(), address)
		return err
	}
	require.NoError(t, spend(one))
	require.NoError(t, spend(two))
	require.ErrorIs(t, spend(one), errs.ErrRateLimited)
	for _, bits := range []int{64, 56, 48} {
		p, err := address.Prefix(bits)
		require.NoError(t, err)
		n, err := rdb.Del(t.Context(), limit.NewVisitorKey(p)).Result()
		require.NoError(t, err)
		require.Equal(t, int64(1), n, "%v", p)
	}
	require.NoError(t, rdb.Close())
	require.ErrorIs(t, spend(one), errs.ErrRateLimited, "remembered")
	alone := limit.New(cfg, rdb, newClock().Now)
	require.NoError(t, spend(alone), "the process counts alone")
	require.NoError(t, spend(alone))
	require.ErrorIs(t, spend(alone), errs.ErrRateLimited)
}
