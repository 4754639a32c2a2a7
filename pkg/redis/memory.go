package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
)

var ( //nolint:gochecknoglobals // metrics are registered once per process
	evicting = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_redis_evicting",
		Help: "1 if a node of Redis deletes keys when its memory is full: its maxmemory-policy is not noeviction. Absent while not known.",
	}, []string{"pool"})
	memoryUsed = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_redis_memory_used_ratio",
		Help: "Used memory of the fullest node of Redis by its maxmemory; 0 if none has a limit. Absent while not known.",
	}, []string{"pool"})
)

// memoryUsage says how full the memory of one or all Redis nodes is.
type memoryUsage struct {
	evicting bool
	used     float64 // share of its limit that the fullest node uses
}

// exportMemory sets the metrics of the nodes' memory. Data with a TTL must not be lost before its
// TTL, so no maxmemory-policy but noeviction is right.
func exportMemory(ctx context.Context, client redis.UniversalClient, pool string) {
	m, err := readMemory(ctx, client)
	if err != nil {
		forgetMemory(pool)
		return
	}
	evicts := 0.0
	if m.evicting {
		evicts = 1
	}
	evicting.WithLabelValues(pool).Set(evicts)
	memoryUsed.WithLabelValues(pool).Set(m.used)
}

func forgetMemory(pool string) {
	evicting.DeleteLabelValues(pool)
	memoryUsed.DeleteLabelValues(pool)
}

func readMemory(ctx context.Context, client redis.UniversalClient) (all memoryUsage, err error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return readNodeMemory(ctx, client)
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		m, err := readNodeMemory(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		all.evicting, all.used = all.evicting || m.evicting, max(all.used, m.used)
		return err
	})
	return all, err
}

// readNodeMemory reads the memory of one node from INFO, since managed services refuse CONFIG GET.
func readNodeMemory(ctx context.Context, node redis.Cmdable) (memoryUsage, error) {
	info, err := node.Info(ctx, "memory").Result()
	if err != nil {
		return memoryUsage{}, err
	}
	figures := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		figures[name] = value
	}
	limit, err := strconv.ParseFloat(figures["maxmemory"], 64)
	if err != nil {
		return memoryUsage{}, fmt.Errorf("maxmemory of Redis: %w", err)
	}
	used, err := strconv.ParseFloat(figures["used_memory"], 64)
	if err != nil {
		return memoryUsage{}, fmt.Errorf("used_memory of Redis: %w", err)
	}
	m := memoryUsage{evicting: figures["maxmemory_policy"] != "noeviction"}
	if limit > 0 {
		m.used = used / limit
	}
	return m, nil
}
