package chaos_test

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"urr.guru/scripts/platform"
)

// TestInvariantsDuringUpgrade upgrades the previous release to this one while crowds come and go:
// migrations first, then half of the replicas in an order that the seed decides, then back, as an
// operator might roll back, and then all. In between, both releases run concurrently on the same
// stores.
func TestInvariantsDuringUpgrade(t *testing.T) {
	if !*full {
		t.Skip("it builds another release: make chaos P=InvariantsDuringUpgrade")
	}
	seed, rng := order(t)
	r := setup(t, longSale, seed, previousRelease(t))
	var over atomic.Bool
	done := r.begin(over.Load)
	r.Migrate()
	all := r.allReplicas(rng)
	half := all[:len(all)/2]
	r.replace(half, false)
	r.replace(half, true)
	r.replace(all, false)
	over.Store(true)
	<-done
	r.requireInvariants()
}

// previousRelease is the release to upgrade from.
func previousRelease(t *testing.T) string {
	t.Helper()
	if *previous != "" {
		return *previous
	}
	tag, err := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--match=v*", "--abbrev=0").Output()
	if err != nil {
		t.Skip("there is no release (a tag v*) to upgrade: name a commit, as in make chaos P=InvariantsDuringUpgrade PREVIOUS=HEAD~9")
	}
	return strings.TrimSpace(string(tag))
}

// replicaID identifies a replica of a service.
type replicaID struct {
	service string
	replica int
}

// allReplicas lists the deployed replicas in random order.
func (r *run) allReplicas(rng *rand.Rand) []replicaID {
	var all []replicaID
	for _, s := range platform.Services() {
		if s.Name == platform.Sandbox {
			continue // the provider is not part of a release
		}
		for i := range r.Service(s.Name).Replicas() {
			all = append(all, replicaID{s.Name, i})
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (r *run) replace(replicas []replicaID, previous bool) {
	words := map[bool]string{true: "back to the previous release", false: "to this release"}
	for _, x := range replicas {
		r.t.Logf("%s: %s-%d %s", r.state(), x.service, x.replica, words[previous])
		r.Service(x.service).Replace(x.replica, previous)
		time.Sleep(2 * time.Second) // both releases serve active visitors
	}
}
