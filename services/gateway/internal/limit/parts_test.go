package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
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

// countedRedis counts the commands that a client sends.
type countedRedis struct{ commands atomic.Int64 }

func (c *countedRedis) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *countedRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *countedRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.commands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// gateways returns n limiters that share a Redis, and the count of the commands that they send.
func gateways(t *testing.T, n int, cfg limit.Config, now func() time.Time) (all []*limit.Limiter, sent *countedRedis) {
	t.Helper()
	sent = &countedRedis{}
	rdb := redistest.Open(t)
	rdb.AddHook(sent)
	for range n {
		all = append(all, limit.New(cfg, rdb, now))
	}
	return all, sent
}

// flood sends requests to all gateways at once, and returns how many were allowed.
func flood(t *testing.T, all []*limit.Limiter, requests int, s limit.Subject) int {
	t.Helper()
	var (
		work    sync.WaitGroup
		allowed atomic.Int64
	)
	for _, l := range all {
		for range 8 {
			work.Go(func() {
				for range requests / 8 {
					if l.CountMutation(t.Context(), s) == nil {
						allowed.Add(1)
					}
				}
			})
		}
	}
	work.Wait()
	return int(allowed.Load())
}

// Three gateways allow at most the limit plus their parts, in whatever order requests and reports
// come. Then all of them refuse without asking Redis.
func TestGatewaysExceedLimitByTheirParts(t *testing.T) {
	t.Parallel()
	const burst, part = 30, 6
	for run := range 5 {
		all, sent := gateways(t, 3, redisConfig(burst), newClock().Now)
		user := fmt.Sprintf("%s-%d", redistest.Prefix(t), run)
		s := limit.Subject{User: user}
		allowed := 0
		for range 1 + rand.N(4) { // some of the requests come after reports
			allowed += flood(t, all, 8*(1+rand.N(3)), s)
			limit.Report(t.Context(), all[rand.N(3)])
		}
		allowed += flood(t, all, 80, s)
		require.LessOrEqual(t, allowed, burst+3*part)
		require.GreaterOrEqual(t, allowed, burst)
		for _, l := range all {
			limit.Report(t.Context(), l)
			require.ErrorIs(t, l.CountMutation(t.Context(), s), errs.ErrRateLimited)
			require.Zero(t, limit.Parts(l))
		}
		before := sent.commands.Load()
		require.Zero(t, flood(t, all, 800, s))
		require.Equal(t, before, sent.commands.Load(), "a refused request costs no command")
		for _, l := range all {
			require.NoError(t, l.Close(t.Context()))
		}
	}
}

// The same is so while the burst is refilled.
func TestPartsDuringRefill(t *testing.T) {
	t.Parallel()
	const rate, burst, part = 200, 50, 10
	cfg := redisConfig(burst)
	cfg.Mutations.User.Rate = rate
	all, _ := gateways(t, 3, cfg, time.Now)
	s := limit.Subject{User: redistest.Prefix(t)}
	start, allowed := time.Now(), 0
	for time.Since(start) < 400*time.Millisecond {
		allowed += flood(t, all, 8, s)
		<-time.After(time.Millisecond)
	}
	require.LessOrEqual(t, float64(allowed), burst+3*part+rate*time.Since(start).Seconds())
	require.GreaterOrEqual(t, allowed, burst)
	for _, l := range all {
		require.NoError(t, l.Close(t.Context()))
	}
}

// Requests of many keys need few commands. What a gateway has allowed is soon known to the others.
func TestReportsShareCommands(t *testing.T) {
	t.Parallel()
	const users = 250
	all, sent := gateways(t, 2, redisConfig(30), newClock().Now)
	prefix := redistest.Prefix(t)
	subject := func(i int) limit.Subject { return limit.Subject{User: fmt.Sprint(prefix, "-", i)} }
	for i := range users {
		for range 6 {
			require.NoError(t, all[0].CountMutation(t.Context(), subject(i)))
		}
	}
	testkit.Until(t, func() bool { return limit.Parts(all[0]) == 0 }, "reports")
	require.LessOrEqual(t, sent.commands.Load(), int64(users/5))
	allowed := flood(t, all[1:], 80, subject(0))
	require.GreaterOrEqual(t, allowed, 24, "six are known")
	require.LessOrEqual(t, allowed, 30)
	require.NoError(t, all[0].Close(t.Context()))
	require.NoError(t, all[1].Close(t.Context()))
}

// Requests of a network up to a hundredth of the rate cause no command.
func TestRareRequestsAreNotReported(t *testing.T) {
	t.Parallel()
	for rate, reported := range map[float64]bool{1000: false, 999: true} {
		all, sent := gateways(t, 1, config(limit.Rules{Network: limit.RateRule{Rate: rate, Burst: 10_000}}), time.Now)
		address := netip.AddrFrom4([4]byte{10, byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256))}) //nolint:gosec // a test
		require.NoError(t, all[0].CountMutation(t.Context(), limit.Subject{Address: address}))
		limit.Report(t.Context(), all[0])
		require.Zero(t, limit.Parts(all[0]))
		require.Equal(t, reported, sent.commands.Load() > 0, "at a rate of %v", rate)
		require.NoError(t, all[0].Close(t.Context()))
	}
}

// A gateway that stops reports what it has allowed.
func TestCloseReports(t *testing.T) {
	t.Parallel()
	rdb, user := redistest.Open(t), redistest.Prefix(t)
	l := limit.New(redisConfig(30), rdb, newClock().Now)
	require.NoError(t, l.CountMutation(t.Context(), limit.Subject{User: user}))
	require.NoError(t, l.Close(t.Context()))
	require.Zero(t, limit.Parts(l))
	n, err := rdb.Exists(t.Context(), limit.UserKey(user)).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

// At first new visitors of a network owe nothing, and Redis is not called. When the network has
// used up its free visitors, Redis decides about each further one.
func TestPartsOfNewVisitors(t *testing.T) {
	t.Parallel()
	cfg := limit.Config{
		NewVisitors: limit.RateRule{Rate: perDay, Burst: 100},
		Work:        limit.WorkRule{Free: limit.RateRule{Rate: perDay, Burst: 20}, MinBits: 16, MaxBits: 18, HalfLife: day},
		Keys:        1000, Timeout: time.Hour, Pause: time.Second,
	}
	all, sent := gateways(t, 3, cfg, newClock().Now)
	address := netip.AddrFrom4([4]byte{10, byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256))}) //nolint:gosec // a test
	count := func(l *limit.Limiter) int {
		bits, err := l.CountNewVisitor(t.Context(), address)
		require.NoError(t, err)
		return bits
	}
	for range 3 {
		require.Zero(t, count(all[0]))
	}
	require.Zero(t, sent.commands.Load())
	free := 3
	for i := 0; count(all[i%3]) == 0; i++ {
		free++
	}
	require.GreaterOrEqual(t, free, 20)
	// A gateway that has reported nothing does not know yet that the free visitors are used up.
	for _, l := range all {
		limit.Report(t.Context(), l)
		for count(l) == 0 {
			free++
		}
	}
	require.LessOrEqual(t, free, 20+3*3)
	for _, l := range all {
		require.NoError(t, l.Close(t.Context()))
	}
}

// A report that fails is not repeated. Requests are then counted in the process.
func TestLostReport(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	l := limit.New(config(rules(perDay, 10)), rdb, newClock().Now)
	s := limit.Subject{User: "alice"}
	require.NoError(t, l.CountMutation(t.Context(), s))
	limit.Report(t.Context(), l)
	require.Zero(t, limit.Parts(l))
	for range 10 {
		require.NoError(t, l.CountMutation(t.Context(), s))
	}
	require.ErrorIs(t, l.CountMutation(t.Context(), s), errs.ErrRateLimited)
	require.NoError(t, l.Close(t.Context()))
}

// If a client disconnects during a call to Redis, the requests allowed before are still counted.
func TestCancelledRequestsAreCounted(t *testing.T) {
	t.Parallel()
	rdb, user := redistest.Open(t), redistest.Prefix(t)
	l := limit.New(redisConfig(30), rdb, newClock().Now)
	s := limit.Subject{User: user}
	allowed := 0
	for range 30 {
		for range 6 { // the part
			if l.CountMutation(t.Context(), s) == nil {
				allowed++
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_ = l.CountMutation(ctx, s)
	}
	require.LessOrEqual(t, allowed, 30+6)
}
