package e2e_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/demo"
	"urr.guru/scripts/demo/rewards"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// secondReward is the second replica of the reward service, which the demo kills and restarts.
type secondReward struct{ service *harness.Service }

func (r secondReward) Start(context.Context) error {
	if !r.service.Running(1) {
		r.service.Start(1)
	}
	return nil
}

func (r secondReward) Kill() error {
	r.service.Kill(1)
	return nil
}

// Stop does nothing, since the harness stops the replica.
func (secondReward) Stop() error { return nil }

// TestRewardsDemo runs the demo with few members. Its audit finds no fault, and then finds each
// fault that the test injects.
func TestRewardsDemo(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.Reward, platform.Gateway}, Replicas: map[string]int{platform.Reward: 2},
		Env: map[string][]string{
			platform.Gateway: {"VWR_ADDR="}, // no tier 1
			platform.Reward: {
				"REWARD_CALL_TIMEOUT=1s", "REWARD_LEASE=2s", "REWARD_RETRY_MIN=100ms", "REWARD_RETRY_MAX=500ms", "REWARD_SETTLE_TIME=2s",
			},
		},
	})
	reward := p.Service(platform.Reward)
	d := rewards.New(&rewards.Config{Members: 60, Prizes: 6, Limit: time.Hour, Seed: 7}, rewards.Platform{
		Gateway: "http://" + p.Service(platform.Gateway).Addr(0), Provider: p.Wiring().RewardProviderURL(), DB: p.DB(platform.Reward),
		Replica: secondReward{reward}, Reconcile: func(ctx context.Context) (string, int) { return reward.Command(ctx, "reconcile") },
		Slow: 100 * time.Millisecond,
	})
	t.Cleanup(d.Close)
	require.NoError(t, d.Play(t.Context()))
	v, findings, err := d.Judge(t.Context())
	require.NoError(t, err)
	require.Equal(t, "demo-rewards ok: members=60 paid_twice=0 unpaid=0 overdrawn=0 differences=0", v.Line(), findings)
	require.NoError(t, demo.Publish(t.Context(), d, v, findings, filepath.Join(t.TempDir(), "report")))

	for _, step := range []struct{ damage, line string }{
		{"paid_twice", "demo-rewards FAILED: members=60 paid_twice=1 unpaid=0 overdrawn=0 differences=1"},
		{"overdrawn", "demo-rewards FAILED: members=60 paid_twice=1 unpaid=1 overdrawn=1 differences=1"},
		{"unpaid", "demo-rewards FAILED: members=60 paid_twice=1 unpaid=2 overdrawn=1 differences=3"},
	} {
		require.NoError(t, d.InjectFault(t.Context(), step.damage))
		v, findings, err := d.Judge(t.Context())
		require.NoError(t, err)
		require.Equal(t, step.line, v.Line(), findings)
		require.NotEmpty(t, findings)
	}
}
