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

// The setting that differs before the upgrade: the maximum of connections to PostgreSQL and Redis.
const (
	connectionsBefore = 13
	databaseSetting   = "DATABASE_MAX_CONNS"
	redisSetting      = "REDIS_POOL_SIZE"
)

// callsAnswered is the metric that counts them.
const callsAnswered = "urr_rpc_server_seconds_count"

// TestInvariantsDuringUpgrade upgrades the services while crowds come and go: migrations first, then
// half of the replicas in an order that the seed decides, then back, as an operator might roll back,
// and then all. In between, both versions run concurrently on the same stores. They are this
// checkout under another version and with another setting, or the newest release, or the commit that
// -previous names. The short form upgrades ticket and queue during small sales, and not back.
func TestInvariantsDuringUpgrade(t *testing.T) {
	sideBySide(t)
	seed, rng := order(t)
	old := &harness.Release{Commit: upgradedCommit(t), Env: []string{
		fmt.Sprintf("%s=%d", databaseSetting, connectionsBefore), fmt.Sprintf("%s=%d", redisSetting, connectionsBefore),
	}}
	if *full {
		r := setup(t, longSale, seed, func(o *harness.Options) { o.Upgrade = old })
		r.upgrade(rng, old, true)
		return
	}
	old.Services = []string{platform.Ticket, platform.Queue}
	r := setup(t, shortSale, seed, func(o *harness.Options) {
		o.Upgrade, o.Replicas = old, map[string]int{platform.Ticket: 2, platform.Queue: 2}
		o.Services = []string{
			platform.Sandbox, platform.Ticket, platform.Stats, platform.Payment, platform.Queue, platform.VWR, platform.Gateway,
		}
	})
	r.upgrade(rng, old, false)
}

// upgradedCommit is the commit to upgrade from; empty: this checkout, under another version.
func upgradedCommit(t *testing.T) string {
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

func (r *run) upgrade(rng *rand.Rand, old *harness.Release, andBack bool) {
	var over atomic.Bool
	done := r.begin(over.Load)
	r.Eventually(func(context.Context) error { return r.requireSold(1) })
	r.Migrate()
	all := r.upgraded(rng, old)
	half := r.half(all)
	r.replace(half, false)
	r.requireBothServe()
	if andBack {
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

// upgraded lists the replicas that are upgraded, in random order.
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

// half is half of the replicas of each service, rounded up: of services with two, both versions run.
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
			time.Sleep(2 * time.Second) // both versions serve active visitors
		}
	}
}

// requireReplaced asks a replica for its version and, if it has a pool, for the changed setting.
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
			// Redis has a second pool of that size once pipelines were used.
			changed := connections == connectionsBefore || connections == 2*connectionsBefore
			require.Equal(r.t, back, changed, "%s-%d has %v connections", x.service, x.replica, connections)
		}
	}
}

// requireBothServe asks each replica of ticket and queue for its version, and waits until all of them
// have answered further calls.
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
