package crowd

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/loop"
)

// Crowd is one run: the visitors of one sale.
type Crowd struct {
	sale     Sale
	api      *API
	visitors int
	// arrive is the time over which the arrivals are spread.
	arrive     time.Duration
	seed       uint64
	behaviours []Behaviour
	cards      int

	soldOut      atomic.Bool
	stolenPasses stolenPasses
	tally        Tally
}

// Options of a run.
type Options struct {
	Visitors int
	Arrive   time.Duration
	// Seed makes behaviours and delays repeatable.
	Seed uint64
	// Behaviours of the visitors, one each; nil: the default shares, assigned by the seed.
	Behaviours []Behaviour
	// MaxPaymentAttempts is the number of valid cards that a visitor tries, for runs in which
	// outages make charges fail; 0 means 1.
	MaxPaymentAttempts int
}

// New prepares the crowd of an open sale.
func New(sale Sale, api *API, o Options) *Crowd {
	return &Crowd{sale: sale, api: api, visitors: o.Visitors, arrive: o.Arrive, seed: o.Seed, behaviours: o.Behaviours, cards: max(1, o.MaxPaymentAttempts)}
}

// Tally holds live counts of visitors.
type Tally struct {
	Arrived atomic.Int64
	// ForgedTried and ForgedIn count attempts with invalid passes, and those that were accepted.
	ForgedTried, ForgedIn atomic.Int64
	// Proofs counts the proofs of work that visitors have done for positions of tier 1.
	Proofs atomic.Int64
	// Paid counts visitors whose payment was confirmed, Ticketed those who then saw their tickets.
	Paid, Ticketed atomic.Int64

	Endings

	mu      sync.Mutex
	forged  []string
	holders map[string]string // seat → holder of its ticket
	twice   []string
}

func (t *Tally) letIn(how string) {
	t.ForgedIn.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forged = append(t.forged, how)
}

// ticket records that a visitor holds a ticket for a seat.
func (t *Tally) ticket(seat, user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders == nil {
		t.holders = map[string]string{}
	}
	if other, taken := t.holders[seat]; taken && other != user {
		t.twice = append(t.twice, fmt.Sprintf("%s (%s and %s)", seat, other, user))
	}
	t.holders[seat] = user
}

func (t *Tally) DuplicateSeats() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.twice...)
}

// Violations lists the violations that visitors observed, a sentence each.
func (t *Tally) Violations() []string {
	var out []string
	for _, how := range t.ForgedPasses() {
		out = append(out, "a forged pass let somebody in: "+how)
	}
	for _, seat := range t.DuplicateSeats() {
		out = append(out, "two hold a ticket of one seat: "+seat)
	}
	if n := t.Paid.Load() - t.Ticketed.Load(); n > 0 {
		out = append(out, fmt.Sprintf("%d paid and did not see a ticket", n))
	}
	return out
}

func (t *Tally) ForgedPasses() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.forged...)
}

func (c *Crowd) Tally() *Tally { return &c.tally }

// Run runs all visits; it returns when the last visitor has left or ctx ends.
func (c *Crowd) Run(ctx context.Context) {
	rng := rand.New(rand.NewPCG(c.seed, 1))
	behaviours := c.behaviours
	if behaviours == nil {
		behaviours = Behaviours(c.visitors, rng)
	}
	arrivals := arrivals(c.visitors, c.arrive, rng)
	var wg sync.WaitGroup
	start := time.Now()
	for i, behaviour := range behaviours {
		v := &visitor{
			crowd: c, behaviour: behaviour, rng: rand.New(rand.NewPCG(c.seed, uint64(i)+2)),
			userID: fmt.Sprintf("%s-%05d", behaviour, i), session: c.api.NewSession(),
		}
		wg.Go(func() {
			if !loop.Sleep(ctx, time.Until(start.Add(arrivals[i]))) {
				return
			}
			c.tally.Arrived.Add(1)
			c.tally.End(v.visit(ctx))
		})
	}
	wg.Wait()
}

// arrivals spreads n visits: half of them arrive in the first fifth of the time, as at the opening
// of a sale.
func arrivals(n int, over time.Duration, rng *rand.Rand) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		part := rng.Float64()
		if i%2 == 0 {
			part *= 0.2
		}
		out[i] = time.Duration(part * float64(over))
	}
	return out
}

// Endings counts how visits end. Its zero value is ready for use.
type Endings struct {
	// Gone is the number of visits that have ended.
	Gone atomic.Int64

	mu       sync.Mutex
	outcomes map[string]int
}

func (e *Endings) End(outcome string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outcomes == nil {
		e.outcomes = map[string]int{}
	}
	e.outcomes[outcome]++
	e.Gone.Add(1)
}

func (e *Endings) Outcomes() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.outcomes)
}
