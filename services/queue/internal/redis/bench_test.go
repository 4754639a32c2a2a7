package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/benchtest/gotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// benchServer is a Redis only for this benchmark, so that its memory is for the lines only.
type benchServer struct {
	client goredis.UniversalClient
	store  *redis.Store
}

func newBenchServer(b *testing.B) benchServer {
	b.Helper()
	s := redistest.StartServer(b, "--appendonly", "no")
	// The timeouts are long, since the machine may be shared.
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), PoolSize: 32, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DisableIdentity: true})
	b.Cleanup(func() { _ = client.Close() })
	store, err := redis.NewStore(client, line.DefaultRules())
	require.NoError(b, err)
	return benchServer{client: client, store: store}
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
		if o.State != line.Waiting {
			return fmt.Errorf("a visitor who joined does not wait: %d", o.State)
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
	gotest.Compare(b, benchtest.Result{
		Name: "redis_mb_per_million_waiting", What: "memory of Redis for a million visitors who wait after tier 1", Unit: "MB",
		Limits: map[string]float64{"mb": 330},
	}, func(ctx context.Context) (float64, map[string]float64, error) {
		mb, err := used(ctx)
		return mb - before, map[string]float64{"mb": mb - before}, err
	}, nil)
}
