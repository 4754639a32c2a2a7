package campaign_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
)

// draws is a store of one campaign in which every draw is a member's first.
type draws struct {
	campaign.Store

	campaign campaign.Campaign
	entries  int64
}

func (d *draws) Enter(_ context.Context, _, _ string, method campaign.EntryMethod) (campaign.RewardedEntry, error) {
	reads, err := method.Query(&d.campaign, d.Now())
	if err == nil {
		err = reads.Closed
	}
	if err != nil {
		return campaign.RewardedEntry{}, err
	}
	change, err := method.Decide(campaign.MemberState{Campaign: d.campaign, Now: d.Now()})
	if err != nil {
		return campaign.RewardedEntry{}, err
	}
	prize := change.Draw(func(*campaign.Prize) bool { return true })
	d.entries++
	change.Entry.ID = d.entries
	return campaign.RewardedEntry{Entry: change.Entry, Prize: prize}, nil
}

func (*draws) Now() time.Time { return time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC) }

// Prizes are drawn by their weights (Pearson's chi-square test), and never without stock.
func TestWeightsOfTheDraw(t *testing.T) {
	t.Parallel()
	none, points := int64(0), campaign.Reward{Kind: payout.Point, Value: 1}
	store := &draws{campaign: campaign.Campaign{
		EventID: "d", Kind: campaign.Random, DrawsPerMember: 1, Period: campaign.WholeCampaign,
		OpensAt: (*draws)(nil).Now(), ClosesAt: (*draws)(nil).Now().Add(time.Hour),
		Prizes: []campaign.Prize{
			{Name: "rare", Reward: points, Weight: 1}, {Name: "gone", Reward: points, Weight: 50, Stock: &none},
			{Name: "frequent", Reward: points, Weight: 9}, {Name: "blank", Blank: true, Weight: 90},
		},
	}}
	service := campaign.NewService(store, nil, func() {})
	service.SetRandom(rand.New(rand.NewPCG(1, 2))) //nolint:gosec // a repeatable draw
	const total = 20_000
	counts := map[string]int{}
	for range total {
		e, err := service.Draw(t.Context(), "d", "ann", "")
		require.NoError(t, err)
		counts[e.Prize.Name]++
	}
	require.Zero(t, counts["gone"])
	var chi float64
	for name, weight := range map[string]float64{"rare": 1, "frequent": 9, "blank": 90} {
		want := total * weight / 100
		chi += (float64(counts[name]) - want) * (float64(counts[name]) - want) / want
	}
	p := math.Exp(-chi / 2) // the survival function at 2 degrees of freedom
	t.Logf("draws %v, chi-square %.3f, p = %.3f", counts, chi, p)
	require.Greater(t, p, 0.001)
}

func TestNoPrizeIsLeft(t *testing.T) {
	t.Parallel()
	none, now := int64(0), (*draws)(nil).Now()
	service := campaign.NewService(&draws{campaign: campaign.Campaign{
		Kind: campaign.Random, DrawsPerMember: 1, OpensAt: now, ClosesAt: now.Add(time.Hour), Prizes: []campaign.Prize{{Weight: 1, Stock: &none}},
	}}, nil, func() {})
	e, err := service.Draw(t.Context(), "d", "ann", "")
	require.NoError(t, err)
	require.Nil(t, e.Prize, "the draw counts and wins nothing")
	require.NotZero(t, e.ID)
}
