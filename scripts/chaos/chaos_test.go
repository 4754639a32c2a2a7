// Package chaos_test runs sales with simulated crowds while services and backends are killed,
// suspended and disconnected, and then verifies the invariants in the stores.
package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

var (
	full     = flag.Bool("full", false, "the long form, with every disturbance: make chaos")
	seedFlag = flag.Uint64("seed", 0, "order of the disturbances; 0 takes the clock")
	previous = flag.String("previous", "", "the commit or tag that is upgraded; empty: the newest tag v*, or this checkout while there is none")
)

// run is a platform under faults, with one sale after another.
type run struct {
	*harness.Platform
	t      *testing.T
	stores *audit.Stores
	api    *crowd.API
	seed   uint64
	size   size
	forger *harness.Forger // nil: nobody forges records

	mu    sync.Mutex
	sales []*sale
}

// size is the size of each sale and its time limits.
type size struct {
	visitors   int
	threshold  int
	rate       int // positions of tier 1 per second
	arrive     time.Duration
	hold, slot int               // seconds
	behaviours []crowd.Behaviour // nil: the crowd's default shares
	voidAfter  time.Duration     // when payment voids a charge that the provider does not know
	hang, cut  time.Duration     // how long a process hangs or a link is slow; is cut
}

var (
	longSale = size{
		visitors: 600, threshold: 120, rate: 60, arrive: 10 * time.Second, hold: 20, slot: 40, voidAfter: 5 * time.Second,
		hang: 3 * time.Second, cut: 2 * time.Second,
	}
	// shortSale has no visitor who stays away for long, or abandons seats that other visitors await.
	shortSale = size{
		visitors: 20, threshold: 10, rate: 20, arrive: time.Second, hold: 5, slot: 20, voidAfter: time.Second,
		hang: 1500 * time.Millisecond, cut: time.Second, behaviours: shortBehaviours(),
	}
)

func shortBehaviours() []crowd.Behaviour {
	return append(slices.Repeat([]crowd.Behaviour{crowd.Buys}, 16), crowd.ClicksTwice, crowd.ClicksTwice, crowd.ClicksTwice, crowd.IsDeclined)
}

// sale is one sale with its crowd of visitors.
type sale struct {
	crowd.Sale
	crowd *crowd.Crowd
}

// setup starts two replicas of each service that keeps its state in a store; the full form uses
// backends that the run may kill. The limits are short, so that the effects of a fault are repaired
// within the test.
func setup(t *testing.T, size size, seed uint64, changes ...func(*harness.Options)) *run {
	t.Helper()
	opts := harness.Options{
		Links: true, OwnBackends: *full,
		Replicas: map[string]int{
			platform.VWR: 2, platform.Queue: 2, platform.Ticket: 2, platform.Payment: 2, platform.Stats: 2,
		},
		Env: map[string][]string{
			platform.Queue:   {"QUEUE_RECOVERY_PAUSE_SECONDS=3"},
			platform.Payment: {"PAYMENT_PROVIDER_TIMEOUT=2s", "PAYMENT_VOID_AFTER=" + size.voidAfter.String()},
		},
	}
	for _, change := range changes {
		change(&opts)
	}
	p := harness.Start(t, opts)
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	t.Cleanup(api.Close)
	return &run{Platform: p, t: t, stores: stores, api: api, seed: seed, size: size}
}

// TestInvariantsUnderFaults injects every fault three times while crowds come and go, each time in
// a different random order, and somebody forges records in every topic. In each round the services
// get new keys to sign theirs. The short form is one small sale with two faults that do not touch the
// checkout's backends.
func TestInvariantsUnderFaults(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	if !*full {
		r := setup(t, shortSale, seed)
		requireRefused := r.forge()
		r.runShort(rng)
		requireRefused()
		return
	}
	keys := newEventKeys(t)
	r := setup(t, longSale, seed, keys.follow)
	requireRefused := r.forge()
	r.runFull(rng, 3, fault{"rotate the keys of records", keys.rotate})
	requireRefused()
}

// parallelIfShort lets a test run in parallel with other tests in its short form, which mostly
// waits. A full form has the machine for itself.
func parallelIfShort(t *testing.T) {
	t.Helper()
	if !*full {
		t.Parallel()
	}
}

// seededRandom returns the seed of a run, and random numbers that follow from it.
func seededRandom(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the same order again: -seed %d", seed)
	return seed, rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a repeatable order, not a secret
}

// runShort plays one sale and injects two faults while visitors are paying.
func (r *run) runShort(rng *rand.Rand) {
	done := r.begin(func() bool { return true })
	all := r.shortFaults()
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, d := range all[:2] {
		r.Eventually(func(context.Context) error { return r.requireSold(i + 1) })
		r.inject(d)
	}
	<-done
	r.requireInvariants()
}

// runFull runs sales one after another until every fault was injected once per round, and more.
func (r *run) runFull(rng *rand.Rand, rounds int, more ...fault) {
	var over atomic.Bool
	done := r.begin(over.Load)
	for range rounds {
		all := append(r.faults(), more...)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, d := range all {
			r.inject(d)
			time.Sleep(2 * time.Second) // visitors resume before the next fault
		}
	}
	over.Store(true)
	<-done
	r.requireInvariants()
}

// begin starts the periodic checks and runs sales in the background. After a sale at whose end over
// returns true, it closes the channel.
func (r *run) begin(over func() bool) (finished <-chan struct{}) {
	r.watchInvariants()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			if err := r.play(i); err != nil {
				r.t.Errorf("sale %d: %v", i, err)
				return
			}
			if over() {
				return
			}
		}
	}()
	return done
}

func (r *run) inject(d fault) {
	r.t.Logf("%s: %s", r.state(), d.name)
	d.inject()
}

// requireSold returns an error until the last sale has sold this many tickets or has no visitors.
func (r *run) requireSold(sold int) error {
	all := r.allSales()
	if len(all) == 0 {
		return errors.New("no sale is open yet")
	}
	last := all[len(all)-1]
	sales, err := r.stores.Sales(r.t.Context(), last.EventID)
	if err == nil && sales.Sold < sold && last.crowd.Tally().Gone.Load() < int64(r.size.visitors) {
		err = fmt.Errorf("%d tickets, not %d", sales.Sold, sold)
	}
	return err
}

// play opens a sale and runs its crowd.
func (r *run) play(i int) error {
	n := r.size.visitors
	s := &sale{Sale: crowd.Sale{
		EventID: fmt.Sprintf("chaos-%d-%d", r.seed, i), Seats: n / 2, Threshold: r.size.threshold, Rate: r.size.rate, Hold: r.size.hold, Slot: r.size.slot,
	}}
	if err := r.open(s); err != nil {
		return err
	}
	s.crowd = crowd.New(s.Sale, r.api, crowd.Options{
		Visitors: n, Arrive: r.size.arrive, Seed: r.seed + uint64(i), Behaviours: r.size.behaviours,
		// A charge that was lost in an outage is voided and reported as declined, so visitors
		// retry.
		MaxPaymentAttempts: 5,
	})
	r.mu.Lock()
	r.sales = append(r.sales, s)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Minute)
	defer cancel()
	s.crowd.Run(ctx)
	return nil
}

// open retries until the sale is open, since the faults affect the operators' API too.
func (r *run) open(s *sale) error {
	for {
		err := s.Open(r.t.Context(), r.api, "operator")
		if err == nil {
			return nil
		}
		select {
		case <-r.t.Context().Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (r *run) allSales() []*sale {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*sale(nil), r.sales...)
}

// state describes the progress of the last sale.
func (r *run) state() string {
	all := r.allSales()
	if len(all) == 0 {
		return "no sale yet"
	}
	tally := all[len(all)-1].crowd.Tally()
	return fmt.Sprintf("sale %d, %d of %d gone", len(all), tally.Gone.Load(), r.size.visitors)
}

// awaitDeath waits until a replica has died at a failpoint.
func awaitDeath(p *harness.Platform, service string, replica int, point string) {
	p.Eventually(func(context.Context) error {
		if p.Service(service).Running(replica) {
			return errors.New(point + " is not reached")
		}
		return nil
	})
}
