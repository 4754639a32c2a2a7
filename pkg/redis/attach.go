package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/lifecycle"
)

// Attach opens the client of a service, closed with it. What the service needs of Redis to be ready
// is for the service to say.
func Attach(ctx context.Context, a *lifecycle.App, cfg Config) (redis.UniversalClient, error) {
	client, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a.OnClose("redis", func(context.Context) error { return client.Close() })
	return client, nil
}
