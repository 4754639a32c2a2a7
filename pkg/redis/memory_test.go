package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/telemetry/metricstest"
)

// The metric shows whether a full server evicts keys or refuses writes, also after a change.
func TestMemoryIsExported(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory", "64mb", "--maxmemory-policy", "noeviction")
	client := s.Client()
	exported := func(pool string, client goredis.UniversalClient) map[string]float64 {
		redis.ExportMemory(t.Context(), client, pool)
		return metricstest.ByName(t, "pool", pool)
	}
	m := exported("memory", client)
	require.Zero(t, m["urr_redis_evicting"])
	require.InDelta(t, 0.02, m["urr_redis_memory_used_ratio"], 0.02)
	for _, policy := range []string{"volatile-lru", "allkeys-lru", "volatile-ttl"} {
		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		require.InDelta(t, 1, exported("memory", client)["urr_redis_evicting"], 0, policy)
	}
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Zero(t, exported("memory", client)["urr_redis_memory_used_ratio"], "no limit")
	require.Len(t, exported("memory-of-cluster", redistest.OpenCluster(t)), 2)
	s.Kill()
	require.Empty(t, exported("memory", client), "not known")
}
