package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/scripts/harness"
)

// cpuTime returns the CPU time, user and system, that the threads of a process have used. It reads
// schedstat, which has nanoseconds; stat has hundredths of a second, too coarse for a round.
func cpuTime(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, fmt.Errorf("find the threads of process %d: %w", pid, err)
	}
	if len(threads) == 0 {
		return 0, fmt.Errorf("process %d does not run", pid)
	}
	var sum time.Duration
	for _, path := range threads {
		raw, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // the thread has just ended
		}
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		first, _, _ := strings.Cut(string(raw), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %s: %w", path, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// redisCPU returns the CPU time that a Redis server has used.
func redisCPU(ctx context.Context, rdb *redis.Client) (time.Duration, error) {
	info, err := rdb.InfoMap(ctx, "cpu").Result()
	if err != nil {
		return 0, fmt.Errorf("read Redis's CPU time: %w", err)
	}
	var sum float64
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		s, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			return 0, fmt.Errorf("read Redis's CPU time: %w", err)
		}
		sum += s
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// processes has, by a name such as a service's, the ids of the processes measured as one.
type processes map[string][]int

// processesOf returns, by service, the process ids of all replicas of these services.
func processesOf(p *harness.Platform, services ...string) processes {
	pids := processes{}
	for _, name := range services {
		for i := range p.Service(name).Replicas() {
			pids[name] = append(pids[name], p.Service(name).PID(i))
		}
	}
	return pids
}

// cpuTimes is a cpuMeter: it returns, by name, the CPU time that the processes have used so far.
func (p processes) cpuTimes(context.Context) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for name, pids := range p {
		for _, pid := range pids {
			t, err := cpuTime(pid)
			if err != nil {
				return nil, err
			}
			times[name] += t
		}
	}
	return times, nil
}

// cpuMeter returns, by name, the CPU time that the measured processes have used so far.
type cpuMeter func(context.Context) (map[string]time.Duration, error)

// perRequest calls do. It returns, by name, the CPU time used meanwhile, in µs per request.
func (m cpuMeter) perRequest(ctx context.Context, requests int, do func() error) (map[string]float64, error) {
	before, err := m(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := m(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]float64{}
	for name := range after {
		used[name] = float64((after[name] - before[name]).Nanoseconds()) / 1000 / float64(requests)
	}
	return used, nil
}
