package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/lifecycle"
)

// Attach opens the Redis client of a service, closed at shutdown. The service itself adds its
// readiness checks.
func Attach(ctx context.Context, a *lifecycle.App, cfg Config) (redis.UniversalClient, error) {
	client, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a.OnClose("redis", func(context.Context) error { return client.Close() })
	return client, nil
}
