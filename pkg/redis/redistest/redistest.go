// Package redistest gives tests clients of the development Redis and keys of their own.
package redistest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/redis"
)

// patience is for a machine that compiles and tests much else: what a slow Redis leads to is tested where a test makes it slow.
const patience = 20 * time.Second

// Open makes a client of the single Redis, closed when the test ends.
func Open(t testing.TB) goredis.UniversalClient {
	t.Helper()
	return open(t, redis.Config{Addrs: []string{backendtest.Redis(t)}, PoolSize: 16})
}

// OpenCluster makes a client of the three-node cluster, closed when the test ends.
func OpenCluster(t testing.TB) goredis.UniversalClient {
	t.Helper()
	return open(t, redis.Config{Addrs: backendtest.RedisCluster(t), PoolSize: 16})
}

func open(t testing.TB, cfg redis.Config) goredis.UniversalClient {
	t.Helper()
	cfg.Patience = patience
	client, err := redis.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Prefix is an event id that no other test has; when the test ends, every key of the single Redis that contains it is deleted.
func Prefix(t testing.TB) string {
	t.Helper()
	return prefix(t, redis.Config{Addrs: []string{backendtest.Redis(t)}, PoolSize: 2})
}

// ClusterPrefix is Prefix on the cluster.
func ClusterPrefix(t testing.TB) string {
	t.Helper()
	return prefix(t, redis.Config{Addrs: backendtest.RedisCluster(t), PoolSize: 2})
}

func prefix(t testing.TB, cfg redis.Config) string {
	t.Helper()
	id := "test-" + strings.ToLower(rand.Text()[:20])
	t.Cleanup(func() { sweep(t, cfg, id) })
	return id
}

func sweep(t testing.TB, cfg redis.Config, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := redis.Open(ctx, cfg)
	if err != nil {
		t.Errorf("sweep %s: %v", prefix, err)
		return
	}
	defer func() { _ = client.Close() }()
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return sweepNode(ctx, node, prefix) })
	} else {
		err = sweepNode(ctx, client, prefix)
	}
	if err != nil {
		t.Errorf("sweep %s: %v", prefix, err)
	}
}

func sweepNode(ctx context.Context, node goredis.UniversalClient, prefix string) error {
	keys := node.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := node.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
