// Package chaos_test sends crowds through sales while services and backends are killed, hung and cut
// off, and then reads from the stores whether anybody was harmed.
package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
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

var seedFlag = flag.Uint64("seed", 0, "order of the disturbances; 0 takes the clock")

// run is a platform under disturbances, with one sale after the other.
type run struct {
	*harness.Platform
	t        *testing.T
	stores   *audit.Stores
	api      *crowd.API
	seed     uint64
	visitors int // of each sale

	mu    sync.Mutex
	sales []*sale
}

// sale is one of them, and who came for it.
type sale struct {
	crowd.Sale
	crowd *crowd.Crowd
}

// setup starts two replicas of whatever keeps its state in a store. The limits are such that what a
// disturbance leaves behind is settled within the test.
func setup(t *testing.T, visitors int, seed uint64) *run {
	t.Helper()
	p := harness.Start(t, harness.Options{
		Links: true,
		Replicas: map[string]int{
			platform.VWR: 2, platform.Queue: 2, platform.Ticket: 2, platform.Payment: 2, platform.Stats: 2,
		},
		Env: map[string][]string{
			platform.Queue:   {"QUEUE_RECOVERY_PAUSE_SECONDS=3"},
			platform.Payment: {"PAYMENT_PROVIDER_TIMEOUT=2s", "PAYMENT_VOID_AFTER=5s"},
		},
	})
	stores, err := audit.Open(t.Context(), p.Wiring())
	require.NoError(t, err)
	t.Cleanup(stores.Close)
	api := crowd.NewAPI("http://"+p.Service(platform.Gateway).Addr(0), crowd.NewRecorder())
	t.Cleanup(api.Close)
	return &run{Platform: p, t: t, stores: stores, api: api, seed: seed, visitors: visitors}
}

// TestNobodyIsHarmedByFaults goes through every disturbance, in an order that the seed decides, while
// crowds come and go.
func TestNobodyIsHarmedByFaults(t *testing.T) {
	visitors, rounds := 150, 1
	if !testing.Short() {
		visitors, rounds = 600, 3
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the same order again: -seed %d", seed)
	r := setup(t, visitors, seed)
	r.watch()

	var over atomic.Bool
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for i := 0; !over.Load(); i++ {
			if err := r.play(i); err != nil {
				t.Errorf("sale %d: %v", i, err)
				return
			}
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // an order to repeat, not a secret
	for range rounds {
		all := r.disturbances()
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, d := range all {
			t.Logf("%s: %s", r.state(), d.name)
			d.do()
			time.Sleep(2 * time.Second) // a disturbance meets people at work, not the end of the one before
		}
	}
	over.Store(true)
	<-gone
	r.requireSettled()
	for _, s := range r.all() {
		r.requireNobodyHarmed(s)
	}
}

// play opens a sale and lets a crowd go through it.
func (r *run) play(i int) error {
	s := &sale{Sale: crowd.Sale{
		EventID: fmt.Sprintf("chaos-%d-%d", r.seed, i), Seats: r.visitors / 2,
		Threshold: r.visitors / 5, Rate: r.visitors / 10, Hold: 20, Slot: 40,
	}}
	if err := r.open(s); err != nil {
		return err
	}
	s.crowd = crowd.New(s.Sale, r.api, crowd.Options{Visitors: r.visitors, Arrive: 10 * time.Second, Seed: r.seed + uint64(i)})
	r.mu.Lock()
	r.sales = append(r.sales, s)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Minute)
	defer cancel()
	s.crowd.Run(ctx)
	return nil
}

// open tries until the operators' way works: it too goes through what is being disturbed.
func (r *run) open(s *sale) error {
	const limit = time.Minute
	for began := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		operator := r.api.NewSession()
		err := operator.DevLogin(r.t.Context(), "operator", "admin")
		if err == nil {
			err = s.Open(r.t.Context(), operator)
		}
		if err == nil || time.Since(began) > limit {
			return err
		}
	}
}

func (r *run) all() []*sale {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*sale(nil), r.sales...)
}

// state is how far the last sale is.
func (r *run) state() string {
	all := r.all()
	if len(all) == 0 {
		return "no sale yet"
	}
	tally := all[len(all)-1].crowd.Tally()
	return fmt.Sprintf("sale %d, %d of %d gone", len(all), tally.Gone.Load(), r.visitors)
}
