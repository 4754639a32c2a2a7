package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/rounds"
	"urr.guru/pkg/rounds/roundstest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// benchServer is a Redis only for this benchmark, so that its CPU time and memory are for the lines
// only.
type benchServer struct {
	client goredis.UniversalClient
	store  *redis.Store
	pid    float64
}

func newBenchServer(b *testing.B, opts ...redis.Option) benchServer {
	b.Helper()
	s := redistest.StartServer(b, "--appendonly", "no")
	// The timeouts are long, since the machine may be shared.
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), PoolSize: 32, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DisableIdentity: true})
	b.Cleanup(func() { _ = client.Close() })
	store, err := redis.NewStore(client, line.DefaultRules(), opts...)
	require.NoError(b, err)
	server := benchServer{client: client, store: store}
	about, err := server.info(b.Context(), "server")
	require.NoError(b, err)
	server.pid = about["process_id"]
	return server
}

// open opens a line with a threshold.
func (s benchServer) open(ctx context.Context, event string, threshold int64) error {
	st, err := s.store.Open(ctx, event, line.KnownState{})
	if err == nil {
		_, err = s.store.ApplySettings(ctx, event, line.KnownState{}, line.Settings{Threshold: &threshold}, st.Now)
	}
	return err
}

// info returns the numbers of a section of Redis's INFO.
func (s benchServer) info(ctx context.Context, section string) (map[string]float64, error) {
	text, err := s.client.Info(ctx, section).Result()
	numbers := map[string]float64{}
	for l := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(l), ":")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			numbers[name] = n
		}
	}
	return numbers, err
}

// cpu returns the CPU time that Redis spends on do, in µs per item.
func (s benchServer) cpu(ctx context.Context, items int, do func() error) (float64, error) {
	before, err := s.cpuTime()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.cpuTime()
	return float64((after - before).Nanoseconds()) / 1000 / float64(items), err
}

// cpuTime returns the CPU time of all threads of Redis, as the kernel counts it.
func (s benchServer) cpuTime() (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%.0f/task/*/schedstat", s.pid))
	if err == nil && len(threads) == 0 {
		err = errors.New("redis-server does not run")
	}
	for _, thread := range threads {
		raw, failed := os.ReadFile(thread)
		first, _, _ := strings.Cut(string(raw), " ")
		ns, wrong := strconv.ParseInt(first, 10, 64)
		sum, err = sum+time.Duration(ns), errors.Join(err, failed, wrong)
	}
	return sum, err
}

// joinClients is how many calls are made at once.
const joinClients = 16

// joinMany makes n visitors join in one call; tier1 returns their states in tier 1. If the server
// was too slow, the call is repeated.
func (s benchServer) joinMany(ctx context.Context, event string, n int, tier1 func(i int) line.Tier1) error {
	claims := make([]line.PlaceClaim, n)
	for i := range claims {
		claims[i] = line.PlaceClaim{UserID: uuid.NewString(), Join: true}
		if tier1 != nil {
			claims[i].Tier1 = tier1(i)
		}
	}
	_, out, err := s.store.Check(ctx, event, line.KnownState{}, claims)
	for errors.Is(err, errs.ErrUnavailable) && ctx.Err() == nil {
		_, out, err = s.store.Check(ctx, event, line.KnownState{}, claims)
	}
	for _, o := range out {
		if o.Standing != line.Waiting {
			return fmt.Errorf("a visitor who joined does not wait: %d", o.Standing)
		}
	}
	return err
}

// concurrently makes n calls, joinClients at once.
func concurrently(ctx context.Context, n int, call func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(joinClients)
	for i := range n {
		group.Go(func() error { return call(ctx, i) })
	}
	return group.Wait()
}

const million = 1_000_000

// BenchmarkMemory measures the memory of Redis for a million visitors who wait after tier 1, with
// ids of 36 characters.
func BenchmarkMemory(b *testing.B) {
	s := newBenchServer(b)
	require.NoError(b, s.open(b.Context(), "ev", 0))
	used := func(ctx context.Context) (float64, error) {
		memory, err := s.info(ctx, "memory")
		return memory["used_memory"] / 1e6, err
	}
	before, err := used(b.Context())
	require.NoError(b, err)
	const page = 64
	round := time.Now().UnixMicro()
	require.NoError(b, concurrently(b.Context(), million/page, func(ctx context.Context, k int) error {
		return s.joinMany(ctx, "ev", page, func(i int) line.Tier1 {
			return line.Tier1{Required: true, Round: round, Position: int64(k*page + i + 1)}
		})
	}))
	roundstest.Compare(b, rounds.Result{
		Name: "redis_mb_per_million_waiting", What: "memory of Redis for a million visitors who wait after tier 1", Unit: "MB",
		Limits: map[string]float64{"mb": 330},
	}, func(ctx context.Context) (float64, map[string]float64, error) {
		mb, err := used(ctx)
		return mb - before, map[string]float64{"mb": mb - before}, err
	}, nil)
}

// BenchmarkAdmit1M measures the Redis CPU time of ticks while a million visitors wait, and of
// reading the first hundred of them.
func BenchmarkAdmit1M(b *testing.B) {
	clock := testkit.NewClock(time.Unix(1_800_000_000, 0))
	s := newBenchServer(b, redis.WithClock(clock.Now))
	require.NoError(b, s.open(b.Context(), "ev", 10*million))
	require.NoError(b, s.enqueue(b.Context(), 0, million, clock.Now().Add(time.Hour)))
	first := 0 // lower than the scores of all waiters
	// tick returns Redis's CPU time and the time that the caller waits, both in µs.
	tick := func(ctx context.Context, admitted, parked int64) (cpu, elapsed float64, err error) {
		clock.Advance(time.Second)
		cpu, err = s.cpu(ctx, 1, func() error {
			began := time.Now()
			_, t, err := s.store.Admit(ctx, "ev", line.KnownState{})
			elapsed = float64(time.Since(began).Nanoseconds()) / 1000
			if err == nil && (t.Admitted != admitted || t.Parked != parked) {
				err = fmt.Errorf("a tick admitted %d and parked %d, not %d and %d", t.Admitted, t.Parked, admitted, parked)
			}
			return err
		})
		return cpu, elapsed, err
	}
	roundstest.Compare(b, rounds.Result{
		Name: "admit_1m", What: "a tick that admits 100 of a million", Unit: "Redis CPU-µs",
		Limits: map[string]float64{"admit_of_zrange": 40, "park_of_zrange": 100},
	}, func(ctx context.Context) (float64, map[string]float64, error) {
		const ticks, reads = 20, 1000
		began := time.Now()
		read, err := s.cpu(ctx, reads, func() error {
			for range reads {
				if err := s.client.ZRange(ctx, "{ev}:queue", 0, 99).Err(); err != nil {
					return err
				}
			}
			return nil
		})
		readElapsed := float64(time.Since(began).Nanoseconds()) / 1000 / reads
		var admit, park, admitElapsed, parkElapsed float64
		for range ticks {
			cpu, elapsed, failed := tick(ctx, 100, 0)
			admit, admitElapsed = admit+cpu/ticks, admitElapsed+elapsed/ticks
			first -= 500
			// The admitted visitors leave. Then the first in line are visitors who went away an hour ago.
			err = errors.Join(err, failed, s.client.Unlink(ctx, "{ev}:unclaimed", "{ev}:active", "{ev}:slot").Err(), s.enqueue(ctx, first, 500, clock.Now().Add(-time.Hour)))
			cpu, elapsed, failed = tick(ctx, 0, 500)
			park, parkElapsed = park+cpu/ticks, parkElapsed+elapsed/ticks
			err = errors.Join(err, failed)
		}
		return admit, map[string]float64{
			"zrange": read, "admit_of_zrange": admit / read, "park_500": park, "park_of_zrange": park / read,
			"elapsed_admit_of_zrange": admitElapsed / readElapsed, "elapsed_park_of_zrange": parkElapsed / readElapsed,
		}, err
	}, nil)
}

// enqueue puts n visitors into the line, with consecutive scores, whose last contact was at seen.
func (s benchServer) enqueue(ctx context.Context, from, n int, seen time.Time) error {
	const page = 250
	return concurrently(ctx, (n+page-1)/page, func(ctx context.Context, k int) error {
		var queue, contacts []goredis.Z
		for i := k * page; i < min(n, (k+1)*page); i++ {
			user := uuid.NewString()
			queue = append(queue, goredis.Z{Score: float64(million*1000 + from + i), Member: user})
			contacts = append(contacts, goredis.Z{Score: float64(seen.UnixMilli() + int64(i%60_000)), Member: user})
		}
		_, err := s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			p.ZAdd(ctx, "{ev}:queue", queue...)
			p.ZAdd(ctx, "{ev}:seen", contacts...)
			return nil
		})
		return err
	})
}
