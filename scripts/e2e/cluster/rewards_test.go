package cluster_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/platform"
)

// payRewards lets a member attend and draw through the gateways. Both rewards are paid by the
// sandbox, also the one that is earned while its provider's payouts are paused.
func (w *world) payRewards(t *testing.T) {
	t.Helper()
	gateway := w.dial(t, crowd.StepRewards)
	operator, member := gateway.signIn("operator", "admin"), gateway.signIn("member")
	create := func(campaign map[string]any) string {
		campaign["title"], campaign["opensAt"], campaign["closesAt"] = "Cluster", time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		var created struct {
			EventID string `json:"eventId"`
		}
		gateway.call(operator, http.MethodPost, "/api/v1/admin/rewards/events", campaign, &created)
		return created.EventID
	}
	attendance := create(map[string]any{"kind": "ATTENDANCE", "daily": map[string]any{"kind": "POINT", "value": 10}})
	draw := create(map[string]any{"kind": "RANDOM", "prizes": []any{map[string]any{"name": "coupon", "kind": "COUPON", "value": 7, "weight": 1, "stock": 1}}})
	statuses := func() map[string]string {
		var mine struct {
			Items []struct {
				EventID string `json:"eventId"`
				Status  string `json:"status"`
			} `json:"items"`
		}
		gateway.call(member, http.MethodGet, "/api/v1/my/rewards", nil, &mine)
		found := map[string]string{}
		for _, item := range mine.Items {
			found[item.EventID] = item.Status
		}
		return found
	}

	gateway.call(operator, http.MethodPost, "/api/v1/admin/rewards/providers/coupon/pause", map[string]any{}, nil)
	gateway.call(member, http.MethodPost, fmt.Sprintf("/api/v1/rewards/%s/attendance", attendance), map[string]any{}, nil)
	gateway.call(member, http.MethodPost, fmt.Sprintf("/api/v1/rewards/%s/draw", draw), map[string]any{}, nil)
	testkit.Until(t, func() bool { return statuses()[attendance] == "SUCCESS" }, "the points are paid")
	require.Equal(t, "PENDING", statuses()[draw], "coupons are paused")
	gateway.call(operator, http.MethodPost, "/api/v1/admin/rewards/providers/coupon/resume", map[string]any{}, nil)
	testkit.Until(t, func() bool { return statuses()[draw] == "SUCCESS" }, "the coupon is paid")

	require.InDelta(t, 2, w.metric(t, platform.Reward, "urr_rewards_total", `status="SUCCESS"`), 0)
}
