package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
	provider "urr.guru/services/reward/sandbox"
)

// TestRewardProviderIsAway makes the provider of points unavailable for a minute: for 20 s each it
// refuses connections, answers 429, and answers 503. Coupons have another provider and are paid
// meanwhile. Afterwards everything is paid, and no attempt was counted. TestProviderIsAway in
// services/reward is the short form.
func TestRewardProviderIsAway(t *testing.T) {
	if !*full {
		t.Skip("it waits for a minute: make chaos P=RewardProviderIsAway")
	}
	coupons, err := provider.Open(filepath.Join(t.TempDir(), "coupons"), time.Now)
	require.NoError(t, err)
	server := provider.NewServer(t.Context(), coupons, provider.Faults{}, slog.New(slog.DiscardHandler))
	listener := httptest.NewServer(server)
	t.Cleanup(func() { listener.Close(); server.Wait(); _ = coupons.Close() })
	size := longRewards
	r := setupRewards(t, size, 1, "REWARD_COUPON_URL="+listener.URL, "REWARD_MAX_ATTEMPTS=1", "REWARD_CALL_TIMEOUT=10s", "REWARD_LEASE=20s",
		"REWARD_SETTLE_TIME=10s", "REWARD_KEY_RETENTION=1h")
	link := r.Link(platform.Reward, platform.Sandbox)
	for _, away := range []struct {
		name  string
		start func()
	}{
		{"no connection", link.Cut},
		{"429", func() {
			r.SetRewardFaults(provider.Faults{Busy: 1})
			link.Heal()
		}},
		{"503", func() { r.SetRewardFaults(provider.Faults{Down: true}) }},
	} {
		before := r.calls()
		away.start()
		r.insert(200, false)
		r.Eventually(func(ctx context.Context) error {
			return r.wantCount(ctx, `reward_kind = 'COUPON' AND reward_status <> 'SUCCESS'`, 0)
		})
		time.Sleep(20 * time.Second)
		calls := r.calls() - before
		t.Logf("%s: %d rewards wait after %d calls", away.name, r.due(), calls)
		require.NotZero(t, calls)
		require.Less(t, calls, 500, "an open circuit sends single probes; without it, each reward would be tried once a second")
		require.Empty(t, r.ledger(), "it is away")
	}
	r.SetRewardFaults(provider.Faults{})
	r.Eventually(func(ctx context.Context) error { return r.wantCount(ctx, `reward_status <> 'SUCCESS'`, 0) })
	counted, err := r.count(t.Context(), `retry_count <> 0`)
	require.NoError(t, err)
	require.Zero(t, counted, "no attempt is counted")
	require.Len(t, r.ledger(), 300)
	require.Len(t, coupons.All(), 300)
}

// calls counts the calls to the provider of points.
func (r *rewards) calls() (n int) {
	r.t.Helper()
	require.NoError(r.t, r.db.QueryRow(r.t.Context(), `
		SELECT count(*) FROM reward_call AS c JOIN event_reward_allocation AS a ON a.id = c.allocation_id WHERE a.reward_kind = 'POINT'`).Scan(&n))
	return n
}

func (r *rewards) wantCount(ctx context.Context, condition string, want int) error {
	n, err := r.count(ctx, condition)
	if err == nil && n != want {
		err = fmt.Errorf("%d rewards with %s, not %d", n, condition, want)
	}
	return err
}
