package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"urr.guru/scripts/platform"
	provider "urr.guru/services/reward/sandbox"
)

// faults returns a fault for each wave. The seed decides order, replicas and times.
func (r *rewards) faults(rng *rand.Rand) []fault {
	var all []fault
	for len(all) < r.size.waves {
		some := r.replicaFaults(rng)
		if *full {
			some = append(append(some, r.replicaFaults(rng)...), r.providerFaults()...)
		}
		rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		all = append(all, some...)
	}
	return all[:r.size.waves]
}

func (r *rewards) replicaFaults(rng *rand.Rand) []fault {
	var all []fault
	for range 2 {
		i, down := rng.IntN(rewardReplicas), time.Duration(rng.Int64N(int64(time.Second)))
		all = append(all, fault{fmt.Sprintf("kill reward-%d for %v", i, down), func() { r.kill(i, down) }})
		j, long := rng.IntN(rewardReplicas), rewardLease+time.Duration(rng.Int64N(int64(r.size.maxSuspend-rewardLease)))
		all = append(all, fault{fmt.Sprintf("suspend reward-%d for %v", j, long), func() { r.suspend(j, long) }})
	}
	if *full {
		all = append(all, fault{"kill every replica", func() {
			for i := range rewardReplicas {
				r.Service(platform.Reward).Kill(i)
			}
			for i := range rewardReplicas {
				r.kills++
				r.Service(platform.Reward).Start(i)
			}
		}})
	}
	return all
}

func (r *rewards) kill(i int, down time.Duration) {
	r.kills++
	r.Service(platform.Reward).Kill(i)
	time.Sleep(down)
	r.Service(platform.Reward).Start(i)
}

func (r *rewards) suspend(i int, duration time.Duration) {
	r.stops++
	r.Service(platform.Reward).Pause(i)
	time.Sleep(duration)
	r.Service(platform.Reward).Resume(i)
}

// providerFaults are faults of the whole provider.
func (r *rewards) providerFaults() []fault {
	during := func(f provider.Faults) func() {
		return func() {
			f.KeyRetention = r.size.keyRetention
			r.SetRewardFaults(f)
			time.Sleep(r.size.maxSuspend)
			r.SetRewardFaults(r.usualFaults)
		}
	}
	sandbox := r.Service(platform.Sandbox)
	return []fault{
		{"the provider answers 429", during(provider.Faults{Busy: 1})},
		{"the provider answers 503", during(provider.Faults{Down: true})},
		{"suspend the provider", func() {
			sandbox.Pause(0)
			time.Sleep(r.size.maxSuspend / 2)
			sandbox.Resume(0)
		}},
		{"kill the provider", func() {
			sandbox.Kill(0)
			sandbox.Start(0)
			r.SetRewardFaults(r.usualFaults)
		}},
		{"cut reward off the provider", func() {
			link := r.Link(platform.Reward, platform.Sandbox)
			link.Cut()
			time.Sleep(r.size.maxSuspend)
			link.Heal()
			link.Delay(rewardDelay)
		}},
	}
}
