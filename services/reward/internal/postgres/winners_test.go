package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/postgres"
)

func announced(key string, w campaign.Winner) []campaign.Announcement {
	return []campaign.Announcement{{EventKey: key, Winner: w}}
}

// A batch of winners is one transaction; repeated events and requests in it count once.
func TestWinnersOfABatch(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	daily := points(100)
	for _, promotion := range []string{"p1", "p2"} {
		m.create(campaign.Campaign{EventID: "of-" + promotion, Kind: campaign.RequestWinners, PromotionID: promotion, Daily: &daily})
	}
	var all []campaign.Announcement
	for key, w := range map[string]campaign.Winner{
		"k1": {RequestID: "r1", PromotionID: "p1", MemberID: "ann"}, "k2": {RequestID: "r2", PromotionID: "p1", MemberID: "ann"},
		"k3": {RequestID: "r2", PromotionID: "p1", MemberID: "ann"}, "k4": {RequestID: "r3", PromotionID: "p2", MemberID: "bob"},
		"k5": {RequestID: "r4", PromotionID: "p3", MemberID: "bob"},
	} {
		w.At = m.clock.Now()
		all = append(all, campaign.Announcement{EventKey: key, Winner: w})
	}
	all = append(all, all[0])
	winners := postgres.Winners{Database: postgres.New(m.pool, postgres.Options{Now: m.clock.Now})}
	for _, want := range []int{3, 0} {
		rewarded, err := winners.Announce(t.Context(), all)
		require.NoError(t, err)
		require.Equal(t, want, rewarded)
	}
	var kept int
	require.NoError(t, m.pool.QueryRow(t.Context(), `SELECT count(*) FROM winners`).Scan(&kept))
	require.Equal(t, 4, kept)
}

// Winners are rewarded whether they are announced before or after the campaign is created, and
// once.
func TestWinnersBeforeAndAfterTheCampaign(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	winners := postgres.Winners{Database: postgres.New(m.pool, postgres.Options{Now: m.clock.Now})}
	announce := func(key, request string) int {
		n, err := winners.Announce(t.Context(), announced(key, campaign.Winner{RequestID: request, PromotionID: "promo", MemberID: "ann-" + request, At: m.clock.Now()}))
		require.NoError(t, err)
		return n
	}
	require.Zero(t, announce("k1", "r1"))
	daily := points(100)
	m.create(campaign.Campaign{EventID: "w-1", Kind: campaign.RequestWinners, PromotionID: "promo", Daily: &daily})
	require.Equal(t, 1, announce("k2", "r2"))
	require.Zero(t, announce("k2", "r2"), "a repeated event")
	require.Zero(t, announce("k3", "r2"), "the same request again")
	rewarded, more, err := winners.RewardEarlier(t.Context())
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, 1, rewarded)
	_, more, err = winners.RewardEarlier(t.Context())
	require.NoError(t, err)
	require.False(t, more)
	rows, err := m.pool.Query(t.Context(), `SELECT idempotency_key FROM event_reward_allocation ORDER BY 1`)
	require.NoError(t, err)
	var got []string
	for rows.Next() {
		var key string
		require.NoError(t, rows.Scan(&key))
		got = append(got, key)
	}
	require.Equal(t, []string{"req-w%2D1-ann-r1-r1", "req-w%2D1-ann-r2-r2"}, got)
}
