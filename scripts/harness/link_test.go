package harness_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/scripts/harness"
)

// statsOnALink starts the stats service, whose connection to PostgreSQL goes through a link. The
// returned check compares the metric of that connection, 1 or 0, with want.
func statsOnALink(t *testing.T) (p *harness.Platform, connected func(want float64) func(context.Context) error) {
	t.Helper()
	p = harness.Start(t, harness.Options{Services: []string{"stats"}, Links: true})
	return p, func(want float64) func(context.Context) error {
		return func(ctx context.Context) error {
			got, err := p.Service("stats").Metric(ctx, 0, `urr_ready{condition="postgres"}`)
			if err == nil && got != want {
				err = fmt.Errorf("the condition postgres is %v, not %v", got, want)
			}
			return err
		}
	}
}

func TestLinkCutAndHeal(t *testing.T) {
	p, connected := statsOnALink(t)
	p.Eventually(connected(1))
	p.Link("stats", "postgres").Cut()
	p.Eventually(connected(0))
	require.NoError(t, p.DB("stats").Ping(t.Context()), "audits do not go through links")
	p.Link("stats", "postgres").Heal()
	p.Eventually(connected(1))

	p.Link("stats", "postgres").Blackhole()
	p.Eventually(connected(0))
	p.Link("stats", "postgres").Heal()
	p.Eventually(connected(1))
}

func TestDialSignsForThePair(t *testing.T) {
	p, _ := statsOnALink(t)
	stats := statsv1.NewStatsServiceClient(p.Dial("gateway", "stats", 0))
	var answer *statsv1.EventStats
	p.Eventually(func(ctx context.Context) (err error) { // a call has a time limit
		answer, err = stats.GetEventStats(ctx, &statsv1.GetEventStatsRequest{EventId: "harness-dial"})
		return err
	})
	require.Zero(t, answer.GetCreated())
}
