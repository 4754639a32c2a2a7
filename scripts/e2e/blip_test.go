package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
)

// TestBlipOfRedis cuts the queue service off Redis for 5 s while a buyer calls. Its replicas stay
// ready, so that gateways keep their addresses. Calls fail quickly, and succeed again soon after.
func TestBlipOfRedis(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{Replicas: map[string]int{platform.Queue: 2}, Links: true})
	b := newBuyer(t, p, newSale(t, p))
	checkPlace := func(ctx context.Context) (int, error) {
		a, err := b.Call(ctx, http.MethodPost, "/api/v1/queue/check/"+b.event, map[string]any{})
		return a.Status, err
	}
	testkit.Until(t, func() bool {
		code, err := checkPlace(t.Context())
		return err == nil && code == http.StatusOK
	}, "calls succeed before the cut")

	link := p.Link(platform.Queue, "redis")
	link.Cut()
	awaitCondition(t, p, "redis", 0)
	failures, slowest := 0, time.Duration(0)
	pace := time.NewTicker(200 * time.Millisecond) // slower than the rate limit of a user
	defer pace.Stop()
	deadline, cancel := testkit.Context(t)
	defer cancel()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) || failures == 0; {
		require.NoError(t, deadline.Err(), "the cut has no effect")
		<-pace.C
		start := time.Now()
		code, err := checkPlace(t.Context())
		require.NoError(t, err)
		if code != http.StatusOK {
			require.True(t, fetch.Overloaded(code), "refused with %d", code)
			failures++
		}
		slowest = max(slowest, time.Since(start))
	}
	for i := range p.Service(platform.Queue).Replicas() {
		answer, err := http.Get("http://" + p.Service(platform.Queue).Ops(i) + "/readyz")
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, "replica %d stays ready", i)
	}
	link.Heal()
	healed := time.Now()
	testkit.Until(t, func() bool {
		<-pace.C
		code, err := checkPlace(t.Context())
		return err == nil && code == http.StatusOK
	}, "calls succeed again")
	// The time to recover depends on the load of the machine, so no limit is checked.
	t.Logf("%d calls failed, the slowest call took %v; calls succeeded again %v after the cut", failures, slowest, time.Since(healed))
	awaitCondition(t, p, "redis", 1)
}

// awaitCondition waits until all queue replicas have a value, 1 or 0, of a readiness condition.
func awaitCondition(t *testing.T, p *harness.Platform, name string, want float64) {
	t.Helper()
	s := p.Service(platform.Queue)
	for i := range s.Replicas() {
		p.Eventually(func(ctx context.Context) error {
			got, err := s.Metric(ctx, i, `urr_ready{condition="`+name+`"}`)
			if err == nil && got != want {
				err = fmt.Errorf("the condition %s of replica %d is %v, not %v", name, i, got, want)
			}
			return err
		})
	}
}
