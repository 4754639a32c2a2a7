package redis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/telemetry"
)

// statsEvery is the interval at which the figures of the pool and of the server are read.
const statsEvery = 5 * time.Second

// App has the methods of lifecycle.App that Attach uses. Importing package lifecycle would bring
// the gRPC server into every program that uses a store.
type App interface {
	Name() string
	Go(name string, fn func(context.Context) error)
	OnClose(name string, fn func(context.Context) error)
}

// Attach opens the Redis client of a service and closes it at shutdown. It adds no readiness check:
// the service does so itself.
func Attach(ctx context.Context, a App, cfg Config) (redis.UniversalClient, error) {
	return AttachAs(ctx, a, "redis", cfg)
}

// AttachAs is Attach for a service with several Redis clients. name distinguishes their figures.
func AttachAs(ctx context.Context, a App, name string, cfg Config) (redis.UniversalClient, error) {
	client, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	// Reading the figures may connect to a cluster, so it is not done at a scrape.
	var latest atomic.Pointer[telemetry.Pool]
	latest.Store(&telemetry.Pool{Max: cfg.PoolSize})
	pool := a.Name() + "-" + name
	unwatch := telemetry.WatchPool(pool, func() telemetry.Pool { return *latest.Load() })
	a.Go(name+" figures", func(ctx context.Context) error {
		defer forgetMemory(pool)
		return loop.Every(ctx, statsEvery, func(ctx context.Context) {
			p := poolStats(client.PoolStats(), cfg.PoolSize)
			latest.Store(&p)
			exportMemory(ctx, client, pool)
		})
	})
	a.OnClose(name, func(context.Context) error {
		unwatch()
		return client.Close()
	})
	return client, nil
}

// poolStats converts the figures of the pool. size is the maximum of connections per node.
func poolStats(s *redis.PoolStats, size int) telemetry.Pool {
	p := telemetry.Pool{
		Max: size, Used: int(s.TotalConns) - int(s.IdleConns), Idle: int(s.IdleConns),
		Acquired: int64(s.Hits) + int64(s.Misses), TimedOut: int64(s.Timeouts), Waited: time.Duration(s.WaitDurationNs),
	}
	if s.PipelineStats != nil { // pipelines have connections of their own
		p = p.Plus(poolStats((*redis.PoolStats)(s.PipelineStats), size))
	}
	return p
}
