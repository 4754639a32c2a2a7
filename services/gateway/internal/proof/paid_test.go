package proof

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
)

// If many gateways get a proof at the same time, only one of them finds that it is new.
func TestOneGatewayIsTheFirst(t *testing.T) {
	t.Parallel()
	rdb := redistest.Open(t)
	key := WorkDebt{Event: "demo", Round: 1, Visitor: uuid.NewString()}.key()
	end := time.Now().Add(time.Hour)
	var (
		wg    sync.WaitGroup
		first atomic.Int64
	)
	var gateways [20]*paidProofs
	for i := range gateways {
		p, err := newPaid(rdb, time.Hour, time.Now)
		require.NoError(t, err)
		require.False(t, p.has(t.Context(), key))
		gateways[i] = p
	}
	for _, p := range gateways {
		wg.Go(func() {
			if p.add(t.Context(), key, end) {
				first.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(1), first.Load())
	ttl, err := rdb.PTTL(t.Context(), key).Result()
	require.NoError(t, err)
	require.InDelta(t, time.Hour, ttl, float64(time.Minute))
}

// While Redis's memory is full, every gateway accepts proofs that were stored before, and a new
// proof only counts at the gateway that received it. No gateway accepts a visitor without a proof.
func TestFullRedisLosesNoProof(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	var gateways [2]*paidProofs
	for i := range gateways {
		p, err := newPaid(s.Client(), time.Hour, time.Now)
		require.NoError(t, err)
		gateways[i] = p
	}
	end := time.Now().Add(time.Hour)
	require.True(t, gateways[0].add(t.Context(), "before", end))
	free := s.Fill()
	require.True(t, gateways[1].has(t.Context(), "before"))
	require.False(t, gateways[1].has(t.Context(), "nobody"))
	require.True(t, gateways[1].add(t.Context(), "meanwhile", end))
	require.False(t, gateways[1].add(t.Context(), "meanwhile", end))
	require.True(t, gateways[1].has(t.Context(), "meanwhile"))
	free()
	require.True(t, gateways[0].has(t.Context(), "before"))
	require.Equal(t, int64(1), s.Client().Exists(t.Context(), "before").Val())
}
