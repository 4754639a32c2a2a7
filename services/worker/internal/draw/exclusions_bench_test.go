package draw_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/dynamo"
)

// BenchmarkExclusions100k reads 100,000 exclusions from a table, and computes the root of the list.
// heap_MB is the memory of the list.
func BenchmarkExclusions100k(b *testing.B) {
	const n = 100_000
	cfg, db := dynamotest.Tables(b)
	require.NoError(b, pkgdynamo.EnsureTable(b.Context(), db, table.Table(cfg)))
	s := dynamo.New(db, cfg, time.Now, func(int) {})
	excludeMany(b, s, n)
	before := heapMB()
	var excluded []fairdraw.Exclusion
	for b.Loop() {
		var err error
		excluded, err = s.Exclusions(b.Context(), "e")
		require.NoError(b, err)
		_, err = fairdraw.ExcludedRoot(excluded)
		require.NoError(b, err)
	}
	require.Len(b, excluded, n)
	b.ReportMetric(heapMB()-before, "heap_MB")
	runtime.KeepAlive(excluded)
}

// excludeMany writes exclusions from the event e, some transactions at a time.
func excludeMany(b *testing.B, s *dynamo.Store, n int) {
	b.Helper()
	const writers = 4
	var work sync.WaitGroup
	for writer := range writers {
		work.Go(func() {
			for from := writer * pkgdynamo.MaxTransaction; from < n; from += writers * pkgdynamo.MaxTransaction {
				tx := s.Begin()
				for i := from; i < min(from+pkgdynamo.MaxTransaction, n); i++ {
					e := promotion.Exclusion{
						EventID: "e", RequestID: entryID(i).String(), Reason: promotion.RejectedWithdrawn, At: 1, EndsAt: cutoff.UnixMilli(),
					}
					tx.Put(table.Shared, table.ExclusionItem(&e), table.Condition{})
				}
				if err := tx.Commit(b.Context()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	work.Wait()
}

// heapMB returns the heap memory in use after a garbage collection.
func heapMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
