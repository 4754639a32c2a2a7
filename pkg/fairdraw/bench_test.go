package fairdraw_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/rounds"
	"urr.guru/pkg/rounds/roundstest"
)

// The benchmark draws from 1,000,000 entries in 64 sorted partitions, as they are stored.
const (
	drawEntries    = 1_000_000
	drawPartitions = 64
	drawWinners    = 1000
	pageEntries    = 4096
)

// BenchmarkDraw1M is the row draw_1m of `make bench`. It compares a draw (merge, root, winners)
// with computing the HMACs alone. Both are measured in CPU time, so that a busy machine changes
// little. peak_MB is the memory of the process, input included.
func BenchmarkDraw1M(b *testing.B) {
	partitions := make([]fairdraw.Entries, drawPartitions)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range drawEntries {
		id := uuid.UUID{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} // ascending, as UUIDv7
		for i := 6; i < len(id); i++ {
			id[i] = byte(random.Uint32())
		}
		p := random.IntN(drawPartitions)
		partitions[p] = append(partitions[p], id[:]...)
	}
	cost := func(do func()) float64 {
		start := processorTime(b)
		do()
		return (processorTime(b) - start).Seconds() * 1000
	}
	roundstest.Compare(b, rounds.Result{
		Name: "draw_1m", What: "root, ranks and winners of 1,000,000 entries", Besides: "the HMACs alone", Unit: "CPU-ms", Must: 1.0 / 3, Aim: 0.4,
		Limits: map[string]float64{"peak_MB": 150},
	}, func(context.Context) (float64, map[string]float64, error) {
		ms := cost(func() { require.Len(b, drawOnce(b, partitions), drawWinners) })
		return ms, map[string]float64{"peak_MB": float64(usage(b).Maxrss) / 1024}, nil
	}, func(context.Context) (float64, map[string]float64, error) {
		return cost(func() { macs(partitions) }), nil, nil
	})
}

func usage(b *testing.B) (u syscall.Rusage) {
	b.Helper()
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	u := usage(b)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// macs computes the baseline: one HMAC for each entry.
func macs(partitions []fairdraw.Entries) {
	mac := hmac.New(sha256.New, make([]byte, 32))
	var sum [sha256.Size]byte
	for _, p := range partitions {
		for i := range p.Len() {
			id := p.At(i)
			mac.Reset()
			mac.Write(id[:])
			mac.Sum(sum[:0])
		}
	}
}

func drawOnce(b *testing.B, partitions []fairdraw.Entries) []uuid.UUID {
	b.Helper()
	sources := make([]fairdraw.Pages, len(partitions))
	for i, p := range partitions {
		sources[i] = pages(p, pageEntries)
	}
	entries, tree := make(fairdraw.Entries, 0, drawEntries*16), fairdraw.Tree{}
	require.NoError(b, fairdraw.Merge(sources, func(id uuid.UUID) error {
		entries = append(entries, id[:]...)
		tree.Add(fairdraw.EntryLeaf(id))
		return nil
	}))
	key := fairdraw.Key(fairdraw.Hash{1}, fairdraw.Hash{2}, tree.Root(), nil)
	return fairdraw.Winners(key, entries, drawWinners)
}
