package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/benchtest/gotest"
	"urr.guru/scripts/platform"
)

// benchmark is a Go benchmark that measures both a row of the report and its baseline.
type benchmark struct {
	row       string
	directory string // relative to the checkout
	name      string
}

func benchmarks() []benchmark {
	return []benchmark{
		{row: "reward_claim", directory: "services/reward/internal/postgres", name: "BenchmarkRewardClaim"},
		{row: "redis_mb_per_million_waiting", directory: "services/queue/internal/redis", name: "BenchmarkMemory"},
		{row: "outbox_relay", directory: "pkg/outbox", name: "BenchmarkOutboxRelay"},
		{row: "stats_consume", directory: "services/stats/internal/kafka", name: "BenchmarkStatsConsume"},
	}
}

// runBenchmarks measures the rows that are Go benchmarks. It needs no platform.
func runBenchmarks(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	for _, b := range benchmarks() {
		if !slices.Contains(wanted, b.row) {
			continue
		}
		r, err := b.run(ctx, layout, opts.Rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", b.row, err)
		}
		addResult(r)
	}
	return nil
}

func (b benchmark) run(ctx context.Context, layout platform.Layout, n int) (r benchtest.Result, err error) {
	file := filepath.Join(layout.State("bench"), b.row+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return r, err
	}
	defer func() { _ = os.Remove(file) }()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+b.name+"$", "-benchtime", strconv.Itoa(n)+"x", "-timeout", "20m", ".") //nolint:gosec // constants
	cmd.Dir = filepath.Join(layout.Root, b.directory)
	cmd.Env = append(os.Environ(), gotest.ResultFile+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return r, fmt.Errorf("%w\n%s", err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return r, fmt.Errorf("the benchmark wrote no result: %w", err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("read the benchmark's result: %w", err)
	}
	return r, nil
}
