package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest/strict"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// crowd is a crowd of one event at one replica, and the DynamoDB that stores its positions.
type crowd struct {
	partitions, placement int
	fraction              float64 // of AWS's units that a partition accepts
	index                 dynamo.PositionIndex
	perSecond, seconds    int
}

// herd is a crowd that comes.
type herd struct {
	crowd

	t     *testing.T
	rules *strict.Rules
	store *dynamo.Store
	room  room.Counters
	begin time.Time

	mu     sync.Mutex
	early  int                 // positions stored while the crowd came
	last   map[string]int64    // the last stored position, by partition key
	taken  map[int64]uuid.UUID // who has a position
	offers map[string]int      // how many visitors came, by partition key
}

const (
	herdEvent = "herd"
	herdTable = "herd-vwr-positions"
)

// come lets the crowd come, in a bubble of synctest. It returns the share of the positions that fit
// into the partitions while it comes, and the share that was stored. Each visitor asks until there is
// a position.
func (c crowd) come(t *testing.T) (fits, stored float64) {
	t.Helper()
	h := &herd{
		crowd: c, t: t, rules: strict.New(strict.Limits{Partitions: c.partitions, Placement: c.placement, Fraction: c.fraction}),
		last: make(map[string]int64), taken: make(map[int64]uuid.UUID), offers: make(map[string]int),
	}
	memory := strict.NewMemory()
	limited := h.rules.Serve(h.record(memory.Serve))
	cfg := pkgdynamo.Config{Prefix: herdEvent}
	db, err := strict.Open(t.Context(), func(ctx context.Context, operation string, body []byte) (strict.Answer, error) {
		if bytes.Contains(body, []byte("vwr-counters")) { // an item takes a thousand writes, whatever the fraction
			return memory.Serve(ctx, operation, body)
		}
		return limited(ctx, operation, body)
	})
	require.NoError(t, err)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, c.index))
	h.store, h.begin = dynamo.New(db, cfg, time.Now), time.Now()
	h.room = roomtest.StartRound(t, h.store, herdEvent, room.DefaultSettings())
	const tick = 10 * time.Millisecond
	var work sync.WaitGroup
	n := 0
	for at := tick; at <= c.duration(); at += tick {
		ids := make([]uuid.UUID, int(float64(c.perSecond)*at.Seconds())-n)
		for i := range ids {
			ids[i] = uuid.New()
			h.offers[dynamo.PositionPartition(herdEvent, ids[i])]++
		}
		n += len(ids)
		work.Go(func() { h.ask(ids) })
		time.Sleep(tick)
	}
	fits, stored = h.fit()/float64(n), float64(h.storedSoFar())/float64(n)
	work.Wait()
	require.Len(t, h.taken, n)
	require.Equal(t, int64(n), roomtest.Read(t, h.store, herdEvent).Issued, "nobody got two positions, and none was lost")
	require.NoError(t, h.store.Close(t.Context()))
	return fits, stored
}

func (c crowd) duration() time.Duration { return time.Duration(c.seconds) * time.Second }

// record notes the positions that next stores, and requires that none overtakes an earlier one of
// the same key.
func (h *herd) record(next strict.Server) strict.Server {
	return func(ctx context.Context, operation string, body []byte) (strict.Answer, error) {
		var in struct {
			Statements []struct{ Parameters []map[string]string }
		}
		if operation == "BatchExecuteStatement" {
			if err := json.Unmarshal(body, &in); err != nil {
				h.t.Error(err)
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, s := range in.Statements {
			key := s.Parameters[2]["S"] // eventId, after activatedAt and createdAt
			position, err := strconv.ParseInt(s.Parameters[3]["N"], 10, 64)
			if err != nil || position <= h.last[key] {
				h.t.Errorf("position %d of %s is stored after %d: %v", position, key, h.last[key], err)
			}
			h.last[key] = position
			if time.Since(h.begin) <= h.duration() {
				h.early++
			}
		}
		return next(ctx, operation, body)
	}
}

// ask asks for positions by one call, as a gateway does, and asks again for who has none.
func (h *herd) ask(ids []uuid.UUID) {
	for len(ids) > 0 && h.t.Context().Err() == nil {
		var again []uuid.UUID
		got := h.store.TakePositions(h.t.Context(), h.room, takersOf(ids))
		h.mu.Lock()
		for i, g := range got {
			switch {
			case errors.Is(g.Err, errs.ErrOverloaded):
				again = append(again, ids[i])
			case g.Err != nil:
				h.t.Errorf("position: %v", g.Err)
			case h.taken[g.Value.Position] != uuid.Nil:
				h.t.Errorf("position %d has two holders", g.Value.Position)
			default:
				h.taken[g.Value.Position] = g.Value.RequestID
			}
		}
		h.mu.Unlock()
		ids = again
		time.Sleep(time.Second)
	}
}

// takersOf returns a visitor for each request id.
func takersOf(ids []uuid.UUID) []room.Taker {
	takers := make([]room.Taker, len(ids))
	for i, id := range ids {
		takers[i] = room.Taker{Visitor: id.String(), IDs: []uuid.UUID{id}}
	}
	return takers
}

func (h *herd) storedSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.early
}

// fit returns how many positions the partitions take while the crowd comes, and in the second that
// an idle partition has saved: of each key the share that its partitions, of the table and of the
// index, take of what is offered to them.
func (h *herd) fit() (sum float64) {
	indexes := []string{""}
	if h.index == dynamo.WithPositionIndex {
		indexes = append(indexes, "eventId-position-index")
	}
	load := make(map[string]float64)
	name := func(index, key string) string { return fmt.Sprint(index, h.rules.Partition(herdTable, index, key)) }
	for key, n := range h.offers {
		for _, index := range indexes {
			load[name(index, key)] += float64(n)
		}
	}
	takes := 1000 * h.fraction * float64(h.seconds+1)
	for key, n := range h.offers {
		share := 1.0
		for _, index := range indexes {
			share = min(share, takes/load[name(index, key)])
		}
		sum += share * float64(n)
	}
	return sum
}

// At twice the rate that the partitions take, they store as much as fits, however the keys are
// placed. No position overtakes an earlier one of its key, and none is lost or issued twice.
func TestPartitionsAreFilled(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			n := []int{2, 4, 5}[i%3]
			c := crowd{partitions: n, placement: i, fraction: 0.02, index: dynamo.PositionIndex(i%2 == 0), perSecond: 2 * 20 * n, seconds: 2}
			fits, stored := c.come(t)
			t.Logf("%d partitions, index %t: %.0f%% fits, %.0f%% stored", c.partitions, c.index, 100*fits, 100*stored)
			require.GreaterOrEqual(t, stored, 0.95*fits)
		})
	}
}

var figures = flag.Bool("figures", false, "print how much of a million in a minute is stored") //nolint:gochecknoglobals // a flag

// TestPartitionsFigures prints a table for the documents.
func TestPartitionsFigures(t *testing.T) {
	if !*figures {
		t.Skip("needs -figures")
	}
	for _, partitions := range []int{17, 25, 34} {
		for placement := range 5 {
			synctest.Test(t, func(t *testing.T) {
				c := crowd{
					partitions: partitions, placement: placement, fraction: 0.05, index: dynamo.WithPositionIndex,
					perSecond: 16_667 / 20, seconds: 5,
				}
				fits, stored := c.come(t)
				t.Logf("%d partitions: %.0f%% fits, %.0f%% stored", partitions, 100*fits, 100*stored)
			})
		}
	}
}

// openStores returns a function that opens stores on one table in memory. writes serves the calls
// that store records.
func openStores(t *testing.T, writes func(memory strict.Server) strict.Server) func() *dynamo.Store {
	t.Helper()
	memory := strict.NewMemory()
	stored := writes(memory.Serve)
	db, err := strict.Open(t.Context(), func(ctx context.Context, operation string, body []byte) (strict.Answer, error) {
		if operation == "BatchExecuteStatement" {
			return stored(ctx, operation, body)
		}
		return memory.Serve(ctx, operation, body)
	})
	require.NoError(t, err)
	cfg := pkgdynamo.Config{Prefix: herdEvent}
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	return func() *dynamo.Store { return dynamo.New(db, cfg, time.Now) }
}

// openThrottled is openStores of a table that throttles writes of records until it is healthy.
func openThrottled(t *testing.T, healthy *atomic.Bool) func() *dynamo.Store {
	t.Helper()
	return openStores(t, func(memory strict.Server) strict.Server {
		return func(ctx context.Context, operation string, body []byte) (strict.Answer, error) {
			if !healthy.Load() {
				return strict.Failure("ThrottlingException", "slow"), nil
			}
			return memory(ctx, operation, body)
		}
	})
}

// Records wait for each other while calls are slow: most calls that store a crowd are full. A visitor
// who comes alone waits for one call only.
func TestCallsOfACrowdAreFull(t *testing.T) {
	t.Parallel()
	const visitors, atOnce, callTime = 3000, 60, 200 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		store := openStores(t, func(memory strict.Server) strict.Server {
			return func(ctx context.Context, operation string, body []byte) (strict.Answer, error) {
				calls.Add(1)
				time.Sleep(callTime) // by the fake clock
				return memory(ctx, operation, body)
			}
		})()
		c := roomtest.StartRound(t, store, herdEvent, room.DefaultSettings())
		began := time.Now()
		_, err := takeWithID(t.Context(), store, c, uuid.New())
		require.NoError(t, err)
		require.Equal(t, callTime, time.Since(began))
		var work sync.WaitGroup
		for range visitors / atOnce {
			time.Sleep(25 * time.Millisecond)
			ids := make([]uuid.UUID, atOnce)
			for i := range ids {
				ids[i] = uuid.New()
			}
			work.Go(func() {
				for _, got := range store.TakePositions(t.Context(), c, takersOf(ids)) {
					if got.Err != nil {
						t.Error(got.Err)
					}
				}
			})
		}
		work.Wait()
		require.LessOrEqual(t, calls.Load(), int64(1.25*visitors/pkgdynamo.MaxInsert))
		require.NoError(t, store.Close(t.Context()))
	})
}

// A visitor whose record is throttled and who asks another replica has one position, at both,
// before those who came later. That another one was issued in vain is no failed write. Not
// parallel: the counters of gaps are global.
func TestThrottledVisitorAsksElsewhere(t *testing.T) { //nolint:paralleltest // see above
	synctest.Test(t, func(t *testing.T) {
		var healthy atomic.Bool
		open := openThrottled(t, &healthy)
		stores := []*dynamo.Store{open(), open()}
		c := roomtest.StartRound(t, stores[0], herdEvent, room.DefaultSettings())
		before := metricstest.ByLabel(t, "urr_vwr_gaps_total", "cause")
		first, second := uuid.New(), uuid.New()
		copy(second[:2], first[:2]) // of the same key
		for i, id := range []uuid.UUID{first, first, second} {
			_, err := takeWithID(t.Context(), stores[min(i, 1)], c, id)
			require.ErrorIs(t, err, errs.ErrOverloaded)
		}
		require.Equal(t, int64(3), roomtest.Read(t, stores[0], herdEvent).Issued)
		healthy.Store(true)
		time.Sleep(5 * time.Second)
		var got []room.Record
		for _, s := range stores {
			for _, id := range []uuid.UUID{first, second} {
				r, err := takeWithID(t.Context(), s, c, id)
				require.NoError(t, err)
				got = append(got, r)
			}
		}
		require.Equal(t, got[:2], got[2:], "the same at both")
		require.Less(t, got[0].Position, got[1].Position)
		require.Equal(t, int64(3), roomtest.Read(t, stores[0], herdEvent).Issued)
		after := metricstest.ByLabel(t, "urr_vwr_gaps_total", "cause")
		require.InDelta(t, before["issued_twice"]+1, after["issued_twice"], 0)
		require.InDelta(t, before["not_stored"], after["not_stored"], 0)
		for _, s := range stores {
			require.NoError(t, s.Close(t.Context()))
		}
	})
}

// An assign whose record is under way joins it. Once a throttled record has waited for 10 s, others
// of its key are refused, and no position is issued for them.
func TestThrottledRecordIsJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var healthy atomic.Bool
		store := openThrottled(t, &healthy)()
		c := roomtest.StartRound(t, store, herdEvent, room.DefaultSettings())
		first, second, other := uuid.New(), uuid.New(), uuid.New()
		copy(second[:2], first[:2])
		other[1] = first[1] + 1
		issued := func() int64 { return roomtest.Read(t, store, herdEvent).Issued }
		for range 3 {
			_, err := takeWithID(t.Context(), store, c, first)
			require.ErrorIs(t, err, errs.ErrOverloaded)
			require.Equal(t, 5*time.Second, errs.From(err).RetryAfter)
			require.Equal(t, int64(1), issued())
		}
		time.Sleep(11 * time.Second)
		_, err := takeWithID(t.Context(), store, c, second)
		require.ErrorIs(t, err, errs.ErrOverloaded)
		require.Equal(t, 10*time.Second, errs.From(err).RetryAfter)
		require.Equal(t, int64(1), issued())
		_, err = takeWithID(t.Context(), store, c, other)
		require.ErrorIs(t, err, errs.ErrOverloaded)
		require.Equal(t, int64(2), issued(), "another key")
		healthy.Store(true)
		time.Sleep(2 * time.Second)
		for i, id := range []uuid.UUID{first, other, second} {
			got, err := takeWithID(t.Context(), store, c, id)
			require.NoError(t, err)
			require.Equal(t, int64(i+1), got.Position)
		}
		require.NoError(t, store.Close(t.Context()))
	})
}
