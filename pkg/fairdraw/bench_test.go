package fairdraw_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
)

// draw1M is a lottery of 1,000,000 entries in 64 sorted partitions, as they are stored.
const (
	drawEntries    = 1_000_000
	drawPartitions = 64
	drawWinners    = 1000
	pageEntries    = 4096
)

// BenchmarkDraw1M is the benchmark draw_1m: merging the partitions, the root, and the winners,
// beside the HMACs alone in the same round. Reported are medians of the rounds, of the processor's
// time, so that a busy machine changes little; peak_MB is the process's, with the input.
//
//	go test ./pkg/fairdraw -run '^$' -bench Draw1M -benchtime 9x
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
	var alone, whole, ratio []float64
	for b.Loop() {
		start := processorTime(b)
		macs(partitions)
		hmacs := processorTime(b) - start
		start += hmacs
		require.Len(b, drawOnce(b, partitions), drawWinners)
		all := processorTime(b) - start
		alone, whole = append(alone, hmacs.Seconds()*1000), append(whole, all.Seconds()*1000)
		ratio = append(ratio, all.Seconds()/hmacs.Seconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(alone), "hmacs_ms")
	b.ReportMetric(median(whole), "draw_ms")
	b.ReportMetric(median(ratio), "x_hmacs")
	b.ReportMetric(float64(usage(b).Maxrss)/1024, "peak_MB")
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

// macs is the baseline: one HMAC for each entry.
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

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
