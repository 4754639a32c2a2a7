package harness_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/scripts/harness"
)

// One service and its database are enough to test a link's effect on a connection.
func statsOnALink(t *testing.T) (*harness.Platform, func(want int) func(context.Context) error) {
	t.Helper()
	p := harness.Start(t, harness.Options{Services: []string{"stats"}, Links: true})
	return p, func(want int) func(context.Context) error {
		return func(ctx context.Context) error {
			code, err := get(ctx, "http://"+p.Service("stats").Ops(0)+"/readyz")
			if err == nil && code != want {
				err = fmt.Errorf("readyz answers %d, not %d", code, want)
			}
			return err
		}
	}
}

func TestLinkCutAndHeal(t *testing.T) {
	p, ready := statsOnALink(t)
	p.Eventually(ready(http.StatusOK))
	p.Link("stats", "postgres").Cut()
	p.Eventually(ready(http.StatusServiceUnavailable))
	require.NoError(t, p.DB("stats").Ping(t.Context()), "audits do not go through links")
	p.Link("stats", "postgres").Heal()
	p.Eventually(ready(http.StatusOK))

	p.Link("stats", "postgres").Blackhole()
	p.Eventually(ready(http.StatusServiceUnavailable))
	p.Link("stats", "postgres").Heal()
	p.Eventually(ready(http.StatusOK))
}

func TestDialSignsForThePair(t *testing.T) {
	p, _ := statsOnALink(t)
	stats := statsv1.NewStatsServiceClient(p.Dial("gateway", "stats", 0))
	answer, err := stats.GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: "harness-dial"})
	require.NoError(t, err)
	require.Zero(t, answer.GetCreated())
}
