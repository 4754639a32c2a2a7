package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/internal/releases"
	"urr.guru/scripts/platform"
)

// Settings of the old version: the maximum of connections to PostgreSQL and Redis.
const (
	oldConnections  = 13
	databaseSetting = "DATABASE_MAX_CONNS"
	redisSetting    = "REDIS_POOL_SIZE"
)

// callsAnswered is the metric that counts the calls that a replica has answered.
const callsAnswered = "urr_rpc_server_seconds_count"

// TestInvariantsDuringUpgrade upgrades the services while crowds come and go: the migrations first,
// then half of the replicas in an order that the seed decides. These are rolled back, and then all
// are upgraded. Meanwhile both versions run on the same stores. The old version is this checkout
// under another name and with another setting, the newest release, or the commit of -previous. The
// short form upgrades the ticket and queue services in small sales, without a rollback.
func TestInvariantsDuringUpgrade(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	old := &harness.Release{Commit: commitBeforeUpgrade(t), Env: []string{
		fmt.Sprintf("%s=%d", databaseSetting, oldConnections), fmt.Sprintf("%s=%d", redisSetting, oldConnections),
	}}
	upgrade := func(o *harness.Options) {
		o.Upgrade = old
		if old.Commit != "" { // it may be older than the certificates: both versions call as inside a mesh
			o.Env["*"] = append(o.Env["*"], "RPC_TLS=", "RPC_PLAIN=mesh")
		}
	}
	if *full {
		r := setup(t, longSale, seed, upgrade)
		r.upgrade(rng, old, true)
		return
	}
	old.Services = []string{platform.Ticket, platform.Queue}
	r := setup(t, shortSale, seed, upgrade, func(o *harness.Options) {
		o.Replicas = map[string]int{platform.Ticket: 2, platform.Queue: 2}
		o.Services = []string{
			platform.Sandbox, platform.Ticket, platform.Stats, platform.Payment, platform.Queue, platform.VWR, platform.Gateway,
		}
	})
	r.upgrade(rng, old, false)
}

// commitBeforeUpgrade returns the commit from which the test upgrades; empty: this checkout, with
// another version number.
func commitBeforeUpgrade(t *testing.T) string {
	t.Helper()
	if *previous != "" || !*full {
		return *previous
	}
	checkout, err := platform.Find()
	require.NoError(t, err)
	newest, err := releases.Of(t.Context(), checkout.Root)
	require.NoError(t, err)
	return string(newest)
}

func (r *run) upgrade(rng *rand.Rand, old *harness.Release, rollBack bool) {
	var over atomic.Bool
	done := r.begin(over.Load)
	r.Eventually(func(context.Context) error { return r.requireSold(1) })
	r.Migrate()
	all := r.upgraded(rng, old)
	half := r.half(all)
	r.replace(half, false)
	r.requireBothServe()
	if rollBack {
		r.replace(half, true)
		r.replace(all, false)
	} else {
		r.replace(slices.DeleteFunc(all, func(x replicaID) bool { return slices.Contains(half, x) }), false)
	}
	over.Store(true)
	<-done
	r.requireInvariants()
}

// replicaID identifies a replica of a service.
type replicaID struct {
	service string
	replica int
}

// upgraded returns the replicas to upgrade, in random order.
func (r *run) upgraded(rng *rand.Rand, old *harness.Release) []replicaID {
	var all []replicaID
	for _, s := range platform.Services() {
		if s.Name == platform.Sandbox || len(old.Services) > 0 && !slices.Contains(old.Services, s.Name) {
			continue
		}
		for i := range r.Service(s.Name).Replicas() {
			all = append(all, replicaID{s.Name, i})
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// half returns half of each service's replicas, rounded up: with two replicas, both versions run.
func (r *run) half(all []replicaID) []replicaID {
	var half []replicaID
	taken := map[string]int{}
	for _, x := range all {
		if 2*taken[x.service] < r.Service(x.service).Replicas() {
			taken[x.service]++
			half = append(half, x)
		}
	}
	return half
}

func (r *run) replace(replicas []replicaID, back bool) {
	words := map[bool]string{true: "back to the old version", false: "to this checkout"}
	for _, x := range replicas {
		r.t.Logf("%s: %s-%d %s", r.state(), x.service, x.replica, words[back])
		r.Service(x.service).Replace(x.replica, back)
		r.requireReplaced(x, back)
		if *full {
			time.Sleep(2 * time.Second) // meanwhile both versions serve visitors
		}
	}
}

// requireReplaced requires the version of a replica and, if it has a pool, that version's setting.
func (r *run) requireReplaced(x replicaID, back bool) {
	r.t.Helper()
	s := r.Service(x.service)
	version, err := s.Version(r.t.Context(), x.replica)
	require.NoError(r.t, err)
	require.Equal(r.t, back, version == harness.OldVersion, "%s-%d has version %s", x.service, x.replica, version)
	for _, pool := range []string{x.service, x.service + "-redis"} {
		connections, err := s.Metric(r.t.Context(), x.replica, fmt.Sprintf(`urr_pool_connections_max{pool="%s"}`, pool))
		require.NoError(r.t, err)
		if connections > 0 {
			// Once pipelines are used, Redis has a second pool of the same size.
			changed := connections == oldConnections || connections == 2*oldConnections
			require.Equal(r.t, back, changed, "%s-%d has %v connections", x.service, x.replica, connections)
		}
	}
}

// requireBothServe requires that the ticket and queue services run in two versions, and waits until
// each of their replicas has answered further calls.
func (r *run) requireBothServe() {
	r.t.Helper()
	for _, name := range []string{platform.Ticket, platform.Queue} {
		s := r.Service(name)
		versions, calls := map[string]bool{}, make([]float64, s.Replicas())
		for i := range calls {
			version, err := s.Version(r.t.Context(), i)
			require.NoError(r.t, err)
			versions[version] = true
			calls[i], err = s.Metric(r.t.Context(), i, callsAnswered)
			require.NoError(r.t, err)
		}
		require.Len(r.t, versions, 2, "%s runs in two versions", name)
		for i, before := range calls {
			r.Eventually(func(ctx context.Context) error {
				now, err := s.Metric(ctx, i, callsAnswered)
				if err == nil && now <= before {
					err = fmt.Errorf("%s-%d has answered no call since both versions run", name, i)
				}
				return err
			})
		}
		r.t.Logf("%s: both versions of %s answer calls: %v", r.state(), name, slices.Sorted(maps.Keys(versions)))
	}
}
