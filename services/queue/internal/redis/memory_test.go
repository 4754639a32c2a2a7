package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	pkgredis "urr.guru/pkg/redis"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// BenchmarkMemory measures the memory of Redis per visitor who waits after tier 1, in bytes,
// with ids of 36 characters. Run it with `go test -run '^$' -bench KnownState -benchtime 200000x
// ./internal/redis`.
func BenchmarkMemory(b *testing.B) {
	s := startServer(b, "--appendonly", "no")
	client, err := pkgredis.Open(b.Context(), pkgredis.Config{Addrs: []string{s.addr}, PoolSize: 2})
	require.NoError(b, err)
	b.Cleanup(func() { _ = client.Close() })
	store, err := redis.NewStore(client, line.DefaultRules())
	require.NoError(b, err)
	st, err := store.Open(b.Context(), "ev", line.KnownState{})
	require.NoError(b, err)
	none := int64(0)
	_, err = store.Apply(b.Context(), "ev", line.KnownState{}, line.Settings{Threshold: &none}, st.Now)
	require.NoError(b, err)
	used := func() int64 {
		var n int64
		info, err := client.Info(context.Background(), "memory").Result()
		require.NoError(b, err)
		_, rest, _ := strings.Cut(info, "used_memory:")
		_, err = fmt.Sscan(rest, &n)
		require.NoError(b, err)
		return n
	}
	before, round := used(), time.Now().UnixMicro()
	const page = 64
	for from := 0; from < b.N; from += page {
		claims := make([]line.Claim, min(page, b.N-from))
		for i := range claims {
			claims[i] = line.Claim{
				UserID: uuid.NewString(), Join: true, Tier1: line.Tier1{Required: true, Round: round, Position: int64(from + i + 1)},
			}
		}
		_, out, err := store.Check(b.Context(), "ev", line.KnownState{}, claims)
		require.NoError(b, err)
		require.Equal(b, line.Waiting, out[0].Standing)
	}
	b.ReportMetric(float64(used()-before)/float64(b.N), "B/waiter")
}
