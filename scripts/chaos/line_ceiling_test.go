package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/platform"
)

// ceilingSize is the size of a line under faults.
type ceilingSize struct {
	visitors, threshold int
	seen                int // slots that the prober must see active at once
	arrive              time.Duration
	leastStay, mostStay time.Duration // time inside
	recovery            int           // seconds
	reserves            int           // tokens with which the prober tries to reserve in each round
	up, down            time.Duration // how long a replica runs before its kill, and stays down
}

var (
	longCeiling = ceilingSize{
		visitors: 5000, threshold: 200, seen: 200, arrive: 30 * time.Second, leastStay: 6 * time.Second, mostStay: 14 * time.Second, recovery: 30,
		reserves: 20, up: 3 * time.Second, down: time.Second,
	}
	shortCeiling = ceilingSize{
		visitors: 100, threshold: 30, seen: 10, arrive: time.Second, leastStay: 500 * time.Millisecond, mostStay: 1500 * time.Millisecond, recovery: 1,
		reserves: 5, up: 500 * time.Millisecond, down: 200 * time.Millisecond,
	}
)

// TestLineKeepsItsCeiling sends visitors through a line whose replicas are killed one after
// another, and whose Redis is killed once. The slots never exceed the threshold: the test reads the
// store and tries every token ever issued. Nobody is overtaken, and everybody gets in.
func TestLineKeepsItsCeiling(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	size := shortCeiling
	if *full {
		size = longCeiling
	}
	l := setupLine(t, rng, nil, fmt.Sprintf("QUEUE_RECOVERY_PAUSE_SECONDS=%d", size.recovery))
	l.open(fmt.Sprintf("ceiling-%d", seed), size.threshold)
	c := l.newCrowd(l.between(size.leastStay, size.mostStay))
	p := l.probe(c, size.reserves)
	began := time.Now()
	c.arrive(size.visitors, size.arrive)
	kills := l.killInTurn(c, size)
	t.Logf("%d visitors, %d kills of a replica, one of Redis: %v", size.visitors, kills, time.Since(began).Round(time.Second))
	require.Positive(t, kills)
	p.requireFound(size.seen)
	c.requireNoProblem()
	turns := map[string]int{}
	for _, a := range l.requireOrder() {
		turns[a.User]++
	}
	require.Len(t, turns, size.visitors)
}

// killInTurn kills a random replica again and again until all visitors have left. It kills Redis
// once, when a third have left.
func (l *lineRun) killInTurn(c *lineCrowd, size ceilingSize) (kills int) {
	l.t.Helper()
	redisKilled := false
	for c.count(gone) < size.visitors {
		loop.Sleep(l.t.Context(), size.up)
		if !redisKilled && c.count(gone) > size.visitors/3 {
			l.t.Logf("%s: kill Redis", c.state())
			l.server.Kill()
			loop.Sleep(l.t.Context(), size.down)
			l.server.Start()
			redisKilled = true
			continue
		}
		replica := l.below(queueReplicas)
		l.Service(platform.Queue).Kill(replica)
		kills++
		loop.Sleep(l.t.Context(), size.down)
		l.Service(platform.Queue).Start(replica)
		if kills%10 == 0 {
			l.t.Logf("%s after %d kills", c.state(), kills)
		}
		require.NoError(l.t, l.t.Context().Err())
	}
	require.True(l.t, redisKilled)
	return kills
}
