package overload_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/overload"
)

const maxWait = 100 * time.Millisecond

func refusedOf(s *overload.Shedder, polls int) (refused int) {
	for range polls {
		if s.Refusal() != nil {
			refused++
		}
	}
	return refused
}

func TestShareFollowsTheWait(t *testing.T) {
	t.Parallel()
	s := overload.New(maxWait)
	require.Zero(t, refusedOf(s, 1000))
	s.Observe(maxWait)
	require.Zero(t, refusedOf(s, 1000), "a busy process is not overloaded")
	s.Observe(maxWait + 1)
	require.Equal(t, 90, refusedOf(s, 1000))
	require.ErrorIs(t, func() (err error) {
		for err == nil {
			err = s.Refusal()
		}
		return err
	}(), errs.ErrOverloaded)
	for range 30 {
		s.Observe(time.Second)
	}
	require.Equal(t, 900, refusedOf(s, 1000), "one of ten gets through")
	for range 40 {
		s.Observe(0)
	}
	require.Equal(t, 500, refusedOf(s, 1000))
	for range 60 {
		s.Observe(0)
	}
	require.Zero(t, refusedOf(s, 1000))

	s = overload.New(0)
	s.Observe(time.Hour)
	require.Zero(t, refusedOf(s, 1000), "switched off")
}

// The share of refused polls is right also for concurrent polls.
func TestShareOfConcurrentPolls(t *testing.T) {
	t.Parallel()
	s := overload.New(maxWait)
	for range 5 {
		s.Observe(time.Second)
	}
	var wg sync.WaitGroup
	counts := make([]int, 4)
	for i := range counts {
		wg.Go(func() { counts[i] = refusedOf(s, 1000) })
	}
	wg.Wait()
	require.Equal(t, 4*450, counts[0]+counts[1]+counts[2]+counts[3])
}

func TestPercentile90(t *testing.T) {
	t.Parallel()
	bounds := []float64{0, 0.001, 0.01, 0.1, 1}
	for name, c := range map[string]struct {
		waits []uint64
		want  time.Duration
	}{
		"too few to say":   {[]uint64{0, 0, 0, 19}, 0},
		"all the same":     {[]uint64{0, 0, 20, 0}, 10 * time.Millisecond},
		"a tenth":          {[]uint64{0, 90, 0, 10}, 100 * time.Millisecond},
		"less than that":   {[]uint64{0, 91, 0, 9}, time.Millisecond},
		"only short waits": {[]uint64{100, 5, 0, 0}, 0},
	} {
		require.Equal(t, c.want, overload.Percentile90(c.waits, bounds), name)
	}
}

// The runtime's histogram contains waits for a processor. Not parallel: it is the whole process's.
func TestMeasureSeesBusyProcessors(t *testing.T) { //nolint:paralleltest // see above
	s := overload.New(maxWait)
	require.Zero(t, s.Measure(), "what was before does not count")
	deadline := time.Now().Add(10 * time.Second)
	for s.Measure() < time.Millisecond {
		require.True(t, time.Now().Before(deadline), "nothing measured")
		var wg sync.WaitGroup
		for range 100 * runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				for end := time.Now().Add(200 * time.Microsecond); time.Now().Before(end); {
					runtime.KeepAlive(end)
				}
				runtime.Gosched() // only a part of the waits is measured
			})
		}
		wg.Wait()
	}
}
