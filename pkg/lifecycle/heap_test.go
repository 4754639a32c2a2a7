package lifecycle_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/lifecycle"
)

// goal returns the size of the heap at which the next collection begins.
func goal() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestReserveHeap(t *testing.T) { //nolint:paralleltest // other tests allocate
	const size = 32 << 20
	require.Less(t, goal(), uint64(size))
	release := lifecycle.ReserveHeap(size)
	require.GreaterOrEqual(t, goal(), uint64(2*size))
	release()
	require.Less(t, goal(), uint64(size))
}
