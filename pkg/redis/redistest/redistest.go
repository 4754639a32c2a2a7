// Package redistest gives tests clients of the development Redis and unique keys. The tests of a
// package run on both kinds of server, if one of them calls OnCluster.
package redistest

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/redis/internal/client"
)

// unlimited is a timeout longer than any test run. Tests of slow servers set timeouts of their own.
const unlimited = 24 * time.Hour

// Open makes a client of the Redis on which the tests run, closed when the test ends.
func Open(t testing.TB) goredis.UniversalClient {
	t.Helper()
	return open(t, defaultOptions(t))
}

// OpenCluster makes a client of the three-node cluster, closed when the test ends.
func OpenCluster(t testing.TB) goredis.UniversalClient {
	t.Helper()
	return open(t, clusterOptions(t))
}

func defaultOptions(t testing.TB) client.Options {
	t.Helper()
	if UsesCluster() {
		return clusterOptions(t)
	}
	return optionsFor([]string{backendtest.Redis(t)})
}

func clusterOptions(t testing.TB) client.Options {
	t.Helper()
	return optionsFor(backendtest.RedisCluster(t))
}

func optionsFor(addrs []string) client.Options {
	return client.Options{Addrs: addrs, PoolSize: 16, Dialing: unlimited, Answering: unlimited}
}

func open(t testing.TB, opts client.Options) goredis.UniversalClient {
	t.Helper()
	c := client.New(opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Keys lists the keys on all nodes that match a pattern.
func Keys(t testing.TB, c goredis.UniversalClient, pattern string) []string {
	t.Helper()
	var mu sync.Mutex
	var all []string
	err := eachNode(context.Background(), c, func(ctx context.Context, node goredis.UniversalClient) error {
		keys, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return err
	})
	if err != nil {
		t.Fatalf("list the keys %s: %v", pattern, err)
	}
	return all
}

// eachNode calls fn for the single Redis, or concurrently for each master of the cluster.
func eachNode(ctx context.Context, c goredis.UniversalClient, fn func(context.Context, goredis.UniversalClient) error) error {
	if nodes, ok := c.(*goredis.ClusterClient); ok {
		return nodes.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return fn(ctx, node) })
	}
	return fn(ctx, c)
}

// Prefix returns an event id that no other test has. When the test ends, every key that contains
// the id is deleted from the Redis on which the tests run.
func Prefix(t testing.TB) string {
	t.Helper()
	return prefix(t, defaultOptions(t))
}

// ClusterPrefix is Prefix for the cluster.
func ClusterPrefix(t testing.TB) string {
	t.Helper()
	return prefix(t, clusterOptions(t))
}

func prefix(t testing.TB, opts client.Options) string {
	t.Helper()
	id := "test-" + strings.ToLower(rand.Text()[:20])
	t.Cleanup(func() {
		if err := deleteKeys(opts, id); err != nil {
			t.Errorf("sweep %s: %v", id, err)
		}
	})
	return id
}

func deleteKeys(opts client.Options, prefix string) error {
	ctx := context.Background() // the context of the test has ended
	c := client.New(opts)
	defer func() { _ = c.Close() }()
	return eachNode(ctx, c, func(ctx context.Context, node goredis.UniversalClient) error {
		return deleteKeysOfNode(ctx, node, prefix)
	})
}

func deleteKeysOfNode(ctx context.Context, node goredis.UniversalClient, prefix string) error {
	keys := node.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := node.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// Snapshot returns a function that restores the keys matching a pattern (all on one node) to their
// present state, as a restart that lost the latest writes does.
func Snapshot(t testing.TB, c goredis.UniversalClient, pattern string) (restore func()) {
	t.Helper()
	ctx := t.Context()
	dumps := map[string]string{}
	for _, key := range Keys(t, c, pattern) {
		dump, err := c.Dump(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		dumps[key] = dump
	}
	return func() {
		t.Helper()
		if now := Keys(t, c, pattern); len(now) > 0 { //nolint:contextcheck // Keys serves cleanups too
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
