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

// settleRequests lets two members apply for one place through the gateways: the first gets it.
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
	}
	for _, m := range []struct{ name, status, code string }{{"first", "SUCCEEDED", "SUCCESS"}, {"second", "REJECTED", "REJECTED_CAPACITY"}} {
		member := gateway.signIn(m.name)
		var accepted, mine request
		gateway.call(member, http.MethodPost, "/api/v1/promotions/"+promotion.EventID+"/requests", map[string]any{}, &accepted)
		testkit.Until(t, func() bool {
			gateway.call(member, http.MethodGet, "/api/v1/promotions/"+promotion.EventID+"/me", nil, &mine)
			return mine.Status == m.status
		}, "the request of the "+m.name+" is settled")
		require.Equal(t, m.code, mine.ResultCode)
	}

	require.InDelta(t, 1, w.metric(t, platform.Worker, "urr_requests_total", `status="SUCCEEDED"`), 0)
}
