package crowd_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

func TestBehavioursHaveExactShares(t *testing.T) {
	t.Parallel()
	behaviours := crowd.Behaviours(1000, rand.New(rand.NewPCG(1, 1)))
	require.Len(t, behaviours, 1000)
	counts := map[crowd.Behaviour]int{}
	for _, h := range behaviours {
		counts[h]++
	}
	require.Equal(t, 30, counts[crowd.Forges])
	require.Equal(t, 10, counts[crowd.Hoards])
	require.Equal(t, 50, counts[crowd.ClicksTwice])
	require.Equal(t, 50, counts[crowd.ComesBack])
	require.Greater(t, counts[crowd.Buys], 600, "most simply buy")
	require.NotEqual(t, behaviours, crowd.Behaviours(1000, rand.New(rand.NewPCG(2, 1))), "another seed, another order")
}

func TestSmallCrowdHasBuyers(t *testing.T) {
	t.Parallel()
	for _, h := range crowd.Behaviours(5, rand.New(rand.NewPCG(1, 1))) {
		require.Equal(t, crowd.Buys, h)
	}
}

func TestSummariesContainRequestedStepsOnly(t *testing.T) {
	t.Parallel()
	r := crowd.NewRecorder()
	for i := 1; i <= 100; i++ {
		r.Add(crowd.StepReserve, time.Duration(i)*time.Millisecond, "")
	}
	r.Add(crowd.StepLogin, time.Second, "503 too busy")
	got := r.Summaries()
	require.Len(t, got, 2, "steps without requests are left out")
	require.Equal(t, crowd.Summary{Step: crowd.StepLogin, Count: 1, Errors: 1, P50: 1000, P99: 1000, LastError: "503 too busy"}, got[0])
	require.Equal(t, crowd.StepReserve, got[1].Step)
	require.InDelta(t, 50, got[1].P50, 1)
	require.InDelta(t, 99, got[1].P99, 1)
	require.Zero(t, got[1].Errors)
	require.Len(t, r.Latencies(crowd.StepReserve), 100)
}
