package postgres_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/provider"
	"urr.guru/services/reward/sandbox"
)

// While the provider of points is away, its circuit is open, its rewards lose no attempt, and the
// rewards of the other provider are paid. Afterwards all are paid. Each reward has a single
// attempt, so that a lost attempt would be final.
func TestProviderIsAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		faults        sandbox.Faults
		closed, asked bool
	}{
		"no connection": {closed: true},
		"429":           {faults: sandbox.Faults{Busy: 1}},
		"503":           {faults: sandbox.Faults{Unavailable: 1}},
		"503, asked":    {faults: sandbox.Faults{Down: true}, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rewards = 40
			points, coupons := newEnvironment(t, tc.faults), newEnvironment(t, sandbox.Faults{})
			if tc.closed {
				points.url = "http://" + backendtest.FreeAddr(t)
			}
			fill(t, points.pool, rewards)
			_, err := points.pool.Exec(t.Context(), `UPDATE event_reward_allocation SET reward_kind = 'COUPON' WHERE id % 2 = 0`)
			require.NoError(t, err)
			if tc.asked {
				_, err := points.pool.Exec(t.Context(), `UPDATE event_reward_allocation SET unknown_since = now(), last_call_at = now(), ask_first = true WHERE id % 4 = 1`)
				require.NoError(t, err)
			}
			client, stopPoints := points.engine(t, payout.Point, points.url)
			_, stopCoupons := points.engine(t, payout.Coupon, coupons.url)

			testkit.Until(t, func() bool { return client.CallsAllowed() == 0 }, "the circuit is open")
			testkit.Until(t, func() bool {
				return points.count(t, `reward_kind = 'COUPON' AND reward_status = 'SUCCESS'`) == rewards/2
			}, "the coupons are paid")
			require.Empty(t, points.ledger.All())
			testkit.Until(t, func() bool {
				return points.count(t, `error_code = 'UNAVAILABLE' AND next_retry_at IS NOT NULL`) > 0
			}, "points are retried later")

			points.server.SetFaults(sandbox.Faults{})
			if tc.closed {
				listen(t, points)
			}
			testkit.Until(t, func() bool { return points.count(t, `reward_status = 'SUCCESS'`) == rewards }, "everything is paid")
			stopPoints()
			stopCoupons()
			require.Zero(t, points.count(t, `retry_count <> 0`), "an attempt was lost")
			require.Len(t, points.ledger.All(), rewards/2)
			require.Len(t, coupons.ledger.All(), rewards/2)
		})
	}
}

// engine pays rewards of one kind, each with a single attempt, until stop is called.
func (env *environment) engine(t *testing.T, kind payout.Kind, url string) (client *provider.Client, stop func()) {
	t.Helper()
	p := policy()
	p.MaxAttempts, p.CallTimeout, p.Lease = 1, 10*time.Second, 30*time.Second // long enough for a busy machine
	client = provider.New(url, provider.Options{OpenFor: 200 * time.Millisecond})
	e := payout.NewEngine(kind, env.payouts(t), client, p, 16, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return client, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// listen serves the provider at its URL, where nothing has listened so far.
func listen(t *testing.T, env *environment) {
	t.Helper()
	l, err := net.Listen("tcp", env.url[len("http://"):])
	require.NoError(t, err)
	server := &http.Server{Handler: env.server, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}
