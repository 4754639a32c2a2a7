package dynamo_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest/strict"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/dynamo"
	"urr.guru/services/ingest/internal/request"
)

// Replicas that accept applications to one lottery at the same time do not write the same items. So
// there is no conflict, and more replicas accept more. Time is simulated: the rates are those of a
// DynamoDB whose calls take 5 to 15 ms.
func TestReplicasAcceptWithoutConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const (
			replicas = 3
			callers  = 60 // of a replica
			seconds  = 2
		)
		rules, memory := strict.New(strict.Limits{Partitions: 64}), strict.NewMemory()
		cfg := pkgdynamo.Config{Prefix: "test"}
		open := func() *dynamo.Store {
			db, err := strict.Open(t.Context(), rules.Serve(memory.Serve))
			require.NoError(t, err)
			require.NoError(t, pkgdynamo.EnsureTable(t.Context(), db, table.Table(cfg)))
			s := dynamo.New(db, cfg, 5*time.Second, time.Now)
			s.Skew = func() time.Duration { return 0 }
			return s
		}
		now := time.Now()
		p := promotion.Promotion{
			EventID: "demo", EventType: promotion.Lottery, Shards: 16,
			OpensAt: now.UnixMilli(), ClosesAt: now.Add(time.Hour).UnixMilli(), LotteryCutoffAt: now.Add(time.Hour).UnixMilli(),
			AnnouncedAt: now.Add(2 * time.Hour).UnixMilli(),
		}
		ctx, stop := context.WithTimeout(t.Context(), seconds*time.Second)
		defer stop()
		var users, accepted atomic.Int64
		var work sync.WaitGroup
		for range replicas {
			s := open()
			defer func() { require.NoError(t, s.Close(t.Context())) }()
			for range callers {
				work.Go(func() {
					for ctx.Err() == nil {
						a := request.Application{EventID: p.EventID, UserID: strconv.FormatInt(users.Add(1), 10), Promotion: p}
						if _, err := s.Accept(t.Context(), a); err != nil {
							t.Error(err)
							return
						}
						accepted.Add(1)
					}
				})
			}
		}
		work.Wait()
		got := rules.Counts()
		t.Logf("%d accepted/s, %d conflicts, %d throttled", accepted.Load()/seconds, got.Conflicts, got.Throttled)
		require.Zero(t, got.Conflicts)
		require.Greater(t, accepted.Load(), int64(3300*seconds), "four times what they accept when all write one item: 818/s")
	})
}
