package room_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waits"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// maxStepDelay is how long after its time a replica's step may begin.
const maxStepDelay = 20 * time.Millisecond

// fleet is a simulation whose replicas step independently, die, and start without cached data.
type fleet struct {
	*simulation

	rng   *rand.Rand
	phase []time.Duration
	ticks []int
	down  []bool
	// moves are the changes of the counter, in order.
	moves []move
}

// move is a change of the counter, by a replica or by an operator.
type move struct {
	at       time.Duration
	replica  int // -1: an operator
	from, to int64
}

func newFleet(t *testing.T, seed uint64, replicas int) *fleet {
	t.Helper()
	f := &fleet{simulation: newSimulation(t, replicas, room.DefaultSettings()), rng: rand.New(rand.NewPCG(seed, 1))}
	f.phase, f.ticks, f.down = make([]time.Duration, replicas), make([]int, replicas), make([]bool, replicas)
	for i := range replicas {
		f.begin(i)
	}
	return f
}

// begin starts replica i without cached data. The clock of the last replica is 30 s ahead.
func (f *fleet) begin(i int) {
	ahead := time.Duration(0)
	if i == len(f.replicas)-1 {
		ahead = 30 * time.Second
	}
	f.caches[i] = room.NewStateCache()
	f.replicas[i] = room.NewAdvancer(f.caches[i], f.store, f.store, f.loads, func() time.Time {
		return f.clock.Now().Add(ahead)
	}, slog.New(slog.DiscardHandler))
	f.phase[i], f.ticks[i], f.down[i] = f.elapsed()+time.Duration(f.rng.Int64N(int64(room.ReadInterval))), 0, false
}

func (f *fleet) elapsed() time.Duration { return f.clock.Now().Sub(epoch) }

// run runs the steps of the replicas for d, and calls then after each step.
func (f *fleet) run(d time.Duration, then func()) {
	f.t.Helper()
	for end := f.elapsed() + d; ; {
		next, at := -1, end
		for i := range f.replicas {
			due := f.phase[i] + time.Duration(f.ticks[i])*room.ReadInterval
			if !f.down[i] && due < at {
				next, at = i, due
			}
		}
		f.clock.Set(epoch.Add(max(at, f.elapsed())))
		if next < 0 {
			return
		}
		f.ticks[next]++
		f.clock.Advance(time.Duration(f.rng.Int64N(int64(maxStepDelay))))
		f.record(next, func() { f.step(next) })
		then()
	}
}

// record runs act, and appends a move if the counter has changed.
func (f *fleet) record(replica int, act func()) {
	f.t.Helper()
	before := f.serving()
	act()
	if after := f.serving(); after != before {
		require.Greater(f.t, after, before, "after %v", f.elapsed())
		f.moves = append(f.moves, move{f.elapsed(), replica, before, after})
	}
}

// advance advances the counter like an operator.
func (f *fleet) advance(n int64) {
	f.t.Helper()
	f.record(-1, func() {
		require.NoError(f.t, f.store.SetServing(f.t.Context(), roomtest.Read(f.t, f.store, "e"), f.serving()+n))
	})
}

// killWinner kills the replica that moved the counter last.
func (f *fleet) killWinner() (victim int) {
	victim = f.moves[len(f.moves)-1].replica
	f.down[victim] = true
	return victim
}

// sleep lets d pass without a step, like a suspended machine.
func (f *fleet) sleep(d time.Duration) {
	f.clock.Advance(d)
	for i := range f.replicas {
		f.phase[i], f.ticks[i] = f.elapsed()+time.Duration(f.rng.Int64N(int64(room.ReadInterval))), 0
	}
}

// requireRate checks that replicas serve at most the configured rate in every period that begins
// with a move, and at least 0.95 of it if the period is ten seconds or longer. Moves of an operator
// do not count.
func (f *fleet) requireRate(moves []move) {
	f.t.Helper()
	perSecond := room.DefaultSettings().Rate()
	for i, first := range moves {
		var byReplicas int64
		for _, m := range moves[i+1:] {
			if m.replica >= 0 {
				byReplicas += m.to - m.from
			}
			took := (m.at - first.at).Seconds()
			// A fraction of a position that was earned before the period adds to its first step.
			require.LessOrEqual(f.t, float64(byReplicas), perSecond*took+1, "from %v to %v", first.at, m.at)
			if took >= 10 {
				require.GreaterOrEqual(f.t, float64(m.to-first.to), 0.95*perSecond*10, "from %v to %v", first.at, m.at)
				break
			}
		}
	}
}

// Three replicas keep the rate in every ten seconds in which people wait, although one clock is 30
// s ahead, the leading replica is killed again and again, an operator moves the counter, and nobody
// waits for an hour. The counter never decreases, and an operator's advance is never undone.
func TestRateHoldsInEveryTenSeconds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		f := newFleet(t, seed, 3)
		all := func() { f.claimShareOfServed(1) }
		play := func() {
			f.issue(4000)
			from := len(f.moves)
			for i := range 3 {
				f.run(9*time.Second, all)
				victim := f.killWinner()
				f.run(2*time.Second, all)
				f.begin(victim)
				if i == 1 {
					before := f.serving()
					f.advance(200)
					all()
					f.run(time.Second, func() {
						all()
						require.GreaterOrEqual(t, f.serving(), before+200)
					})
				}
			}
			f.run(12*time.Second, all)
			f.requireRate(f.moves[from:])
		}
		play()
		f.run(time.Minute, all) // everybody is served
		c := roomtest.Read(t, f.store, "e")
		require.Equal(t, c.Issued, c.Serving, "seed %d", seed)
		f.sleep(time.Hour)
		f.run(time.Minute, all)
		f.sleep(time.Hour)
		before := len(f.moves)
		play()
		step := f.moves[before]
		require.LessOrEqual(t, step.to-step.from, room.DefaultSettings().Batch, "seed %d: the first step after an idle hour", seed)
	}
}

// claimsIn returns the number of claims in each ten seconds of a run, in which the given share of
// the visitors claims.
func (f *fleet) claimsIn(periods int, share float64) (claims []int64) {
	f.t.Helper()
	for range periods {
		before := f.claimed
		f.run(10*time.Second, func() { f.claimShareOfServed(share) })
		claims = append(claims, f.claimed-before)
	}
	return claims
}

// If half of the visitors have left, the others are served at the configured rate, even after the
// leading replica was killed, since all replicas measure the share. Claims that cannot be written
// have no effect. If many who had left return, the counter slows down.
func TestVisitorsWhoLeftDoNotUseUpTheRate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		f := newFleet(t, seed, 3)
		f.issue(60_000)
		half := func() { f.claimShareOfServed(0.5) }
		f.claimsIn(17, 0.5) // after two windows the share is constant
		claims := f.claimsIn(3, 0.5)
		victim := f.killWinner()
		f.run(2*time.Second, half)
		f.begin(victim)
		claims = append(claims, f.claimsIn(3, 0.5)...)
		for i, n := range claims {
			require.InDelta(t, 500, n, 50, "seed %d, period %d", seed, i)
		}

		f.store.SetClaimsDown(true)
		before := f.serving()
		f.run(30*time.Second, half)
		require.InDelta(t, 3000, f.serving()-before, 300, "seed %d: while claims cannot be written", seed)
		f.store.SetClaimsDown(false)
		f.claimsIn(17, 0.5)

		for range 20_000 { // claims of positions served long ago
			f.store.RecordClaim(room.Record{EventID: "e", Round: f.round, RequestID: uuid.New()})
		}
		f.run(2*time.Second, half)
		before = f.serving()
		f.run(10*time.Second, half)
		require.LessOrEqual(t, f.serving()-before, int64(300), "seed %d: while a crowd returns", seed)
	}
}

// lateCrowd claims for every served visitor at the visitor's next poll: within the longest poll
// interval for visitors whom an operator's advance has served, at once for others.
type lateCrowd struct {
	*fleet

	advancedAt  time.Duration
	servedSoFar int64
	due         []time.Duration // the poll times of visitors who have not claimed
}

func (l *lateCrowd) poll() {
	now := l.elapsed()
	for ; l.servedSoFar < l.serving(); l.servedSoFar++ {
		l.due = append(l.due, max(now, l.advancedAt+time.Duration(l.rng.Int64N(int64(waits.LongestPoll)))))
	}
	waiting := l.due[:0]
	for _, at := range l.due {
		if at > now {
			waiting = append(waiting, at)
			continue
		}
		l.store.RecordClaim(room.Record{EventID: "e", Round: l.round, RequestID: uuid.New()})
	}
	l.due = waiting
}

// Visitors far from the counter poll once a minute. If an operator's advance serves 50,000 of them,
// they do not seem to have left before they poll: the configured rate is not exceeded.
func TestAnAdvanceBeyondLatePollsKeepsTheRate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2)
	f.issue(80_000)
	crowd := &lateCrowd{fleet: f, advancedAt: -waits.LongestPoll}
	f.run(100*time.Second, crowd.poll)
	from := len(f.moves)
	crowd.advancedAt = f.elapsed()
	f.advance(50_000)
	f.run(3*time.Minute, crowd.poll)
	f.requireRate(f.moves[from:])
	require.Empty(t, crowd.due)
}
