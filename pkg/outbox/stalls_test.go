package outbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPartitionBackoff(t *testing.T) {
	t.Parallel()
	s := newStalls(100 * time.Millisecond)
	now := time.Unix(1_800_000_000, 0)
	p := partition{topic: "t", count: 3, number: 1}
	due := func(at time.Time) bool {
		all, due, _ := s.excluded(at)
		require.Len(t, all, 1)
		return len(due) == 1
	}
	require.True(t, s.recordFailure(p, now), "the first failure is said")
	require.False(t, due(now.Add(49*time.Millisecond)))
	require.True(t, due(now.Add(150*time.Millisecond)))
	for range 10 {
		require.False(t, s.recordFailure(p, now), "the others are not, for a while")
	}
	require.False(t, due(now.Add(2499*time.Millisecond)))
	require.True(t, due(now.Add(7500*time.Millisecond)), "never longer than 5 s and half as much again")
	_, _, next := s.excluded(now)
	require.WithinRange(t, next, now.Add(2500*time.Millisecond), now.Add(7500*time.Millisecond))
	require.True(t, s.recordFailure(p, now.Add(logEvery)))

	now = now.Add(2 * time.Minute)
	stalled, recovered := s.recordSuccess(p, 1, now)
	require.True(t, recovered)
	require.Equal(t, 2*time.Minute, stalled)
	all, _, _ := s.excluded(now)
	require.Empty(t, all)
	s.recordFailure(p, now.Add(backoffMemory))
	require.False(t, due(now.Add(backoffMemory+2499*time.Millisecond)), "a later failure continues the previous back-off")
	s.recordSuccess(p, 1, now)
	s.excluded(now.Add(backoffMemory + 1))
	require.Empty(t, s.byPartition, "it is forgotten")
	s.recordFailure(p, now)
	require.True(t, due(now.Add(150*time.Millisecond)))
}

func TestRefusedBatchIsSentRowByRow(t *testing.T) {
	t.Parallel()
	s := newStalls(time.Second)
	now := time.Unix(1_800_000_000, 0)
	p := partition{topic: "t", count: 1}
	s.sendSingly(p, 7, now)
	s.sendSingly(p, 9, now)
	for _, id := range []int64{3, 7} {
		_, recovered := s.recordSuccess(p, id, now)
		require.False(t, recovered)
		_, due, _ := s.excluded(now)
		require.Equal(t, []partition{p}, due, "at once")
	}
	s.recordFailure(p, now)
	_, due, _ := s.excluded(now)
	require.Empty(t, due, "another failure waits")
	_, recovered := s.recordSuccess(p, 9, now)
	require.True(t, recovered)
}

func TestMatchingPartitions(t *testing.T) {
	t.Parallel()
	s := newStalls(time.Second)
	now := time.Unix(1_800_000_000, 0)
	whole, one, other := partition{"t", 1, 0}, partition{"t", 3, 1}, partition{"t", 3, 2}
	for _, p := range []partition{whole, one, other, {"u", 1, 0}} {
		s.recordFailure(p, now)
	}
	require.ElementsMatch(t, []partition{whole, one}, s.matching(row{Topic: "t", KeyHash: 4}))
	s.remove(whole)
	s.recordSuccess(one, 1, now)
	require.Empty(t, s.matching(row{Topic: "t", KeyHash: 4}))
}
