package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/platform"
)

// settleRequests lets a member apply for a promotion's only place. Then the promotion is sold out.
func (w *world) settleRequests(t *testing.T) {
	t.Helper()
	gateway := w.dial(t, crowd.StepApply)
	operator := gateway.signIn("operator", "admin")
	var promotion struct {
		EventID string `json:"eventId"`
	}
	gateway.call(operator, http.MethodPost, "/api/v1/admin/promotions", map[string]any{
		"title": "Cluster", "eventType": "FIRST_COME", "capacityTotal": 1, "opensAt": time.Now().Add(-time.Hour), "closesAt": time.Now().Add(time.Hour),
	}, &promotion)

	type request struct {
		Status     string `json:"status"`
		ResultCode string `json:"resultCode"`
		Place      int    `json:"place"`
	}
	path := "/api/v1/promotions/" + promotion.EventID
	member := gateway.signIn("first")
	var mine request
	gateway.call(member, http.MethodPost, path+"/requests", map[string]any{}, nil)
	testkit.Until(t, func() bool {
		gateway.call(member, http.MethodGet, path+"/me", nil, &mine)
		return mine.Status == "SUCCEEDED"
	}, "the request is settled")
	require.Equal(t, request{"SUCCEEDED", "SUCCESS", 1}, mine)
	testkit.Until(t, func() bool {
		var left struct {
			Remaining *int `json:"remaining"`
		}
		gateway.call(member, http.MethodGet, path, nil, &left)
		return left.Remaining != nil && *left.Remaining == 0
	}, "everybody can see that nothing is left")

	require.InDelta(t, 1, w.metric(t, platform.Worker, "urr_requests_total", `status="SUCCEEDED"`), 0)
}
