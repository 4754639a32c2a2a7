// Package redistest gives tests clients of the development Redis and unique keys.
package redistest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/redis/internal/client"
)

// unlimited exceeds any test run; tests of slow servers set their own timeouts.
const unlimited = 24 * time.Hour

// Open makes a client of the single Redis, closed when the test ends.
func Open(t testing.TB) goredis.UniversalClient {
	t.Helper()
	return open(t, single(t))
}

// OpenCluster makes a client of the three-node cluster, closed when the test ends.
func OpenCluster(t testing.TB) goredis.UniversalClient {
	t.Helper()
	return open(t, cluster(t))
}

func single(t testing.TB) client.Options {
	t.Helper()
	return options([]string{backendtest.Redis(t)})
}

func cluster(t testing.TB) client.Options {
	t.Helper()
	return options(backendtest.RedisCluster(t))
}

func options(addrs []string) client.Options {
	return client.Options{Addrs: addrs, PoolSize: 16, Dialing: unlimited, Answering: unlimited}
}

func open(t testing.TB, opts client.Options) goredis.UniversalClient {
	t.Helper()
	c := client.New(opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Prefix is an event id that no other test has; when the test ends, every key of the single Redis
// that contains it is deleted.
func Prefix(t testing.TB) string {
	t.Helper()
	return prefix(t, single(t))
}

// ClusterPrefix is Prefix on the cluster.
func ClusterPrefix(t testing.TB) string {
	t.Helper()
	return prefix(t, cluster(t))
}

func prefix(t testing.TB, opts client.Options) string {
	t.Helper()
	id := "test-" + strings.ToLower(rand.Text()[:20])
	t.Cleanup(func() {
		if err := sweep(opts, id); err != nil {
			t.Errorf("sweep %s: %v", id, err)
		}
	})
	return id
}

func sweep(opts client.Options, prefix string) error {
	ctx := context.Background() // the test's own has ended
	c := client.New(opts)
	defer func() { _ = c.Close() }()
	if nodes, ok := c.(*goredis.ClusterClient); ok {
		return nodes.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return sweepNode(ctx, node, prefix) })
	}
	return sweepNode(ctx, c, prefix)
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

// Snapshot returns a function that restores the keys which match a pattern (of one node) to what they
// are now, as a restart behind the log does.
func Snapshot(t testing.TB, c goredis.UniversalClient, pattern string) (restore func()) {
	t.Helper()
	ctx := t.Context()
	dumps := map[string]string{}
	for _, key := range keys(t, c, pattern) {
		dump, err := c.Dump(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		dumps[key] = dump
	}
	return func() {
		t.Helper()
		if now := keys(t, c, pattern); len(now) > 0 {
			if err := c.Del(ctx, now...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for key, dump := range dumps {
			if err := c.Restore(ctx, key, 0, dump).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func keys(t testing.TB, c goredis.UniversalClient, pattern string) []string {
	t.Helper()
	found, err := c.Keys(t.Context(), pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	return found
}
