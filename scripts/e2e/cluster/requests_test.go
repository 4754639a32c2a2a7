package cluster_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waittest"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/platform"
)

// settleRequests lets two members apply for one place through the gateways: the first gets it.
func (w *world) settleRequests(t *testing.T) {
	t.Helper()
	api := crowd.NewAPI("http://"+w.gateway(t), crowd.NewRecorder())
	defer api.Close()
	call := func(who *crowd.Session, method, path string, body, into any) {
		header := map[string]string{"Idempotency-Key": "cluster"}
		answer, err := who.Call(t.Context(), crowd.StepApply, method, path, body, header)
		require.NoError(t, err)
		require.True(t, answer.OK(), "%s %s: %d %s", method, path, answer.Status, answer.Body)
		require.NoError(t, json.Unmarshal(answer.Body, into))
	}
	operator := api.NewSession()
	require.NoError(t, operator.DevLogin(t.Context(), "cluster-operator", "admin"))
	var promotion struct {
		EventID string `json:"eventId"`
	}
	call(operator, http.MethodPost, "/api/v1/admin/promotions", map[string]any{
		"title": "Cluster", "eventType": "FIRST_COME", "capacityTotal": 1, "opensAt": time.Now().Add(-time.Hour), "closesAt": time.Now().Add(time.Hour),
	}, &promotion)

	type request struct {
		Status     string `json:"status"`
		ResultCode string `json:"resultCode"`
	}
	for _, m := range []struct{ name, status, code string }{{"first", "SUCCEEDED", "SUCCESS"}, {"second", "REJECTED", "REJECTED_CAPACITY"}} {
		member := api.NewSession()
		require.NoError(t, member.DevLogin(t.Context(), "cluster-"+m.name))
		var accepted, mine request
		call(member, http.MethodPost, "/api/v1/promotions/"+promotion.EventID+"/requests", map[string]any{}, &accepted)
		waittest.Until(t, func() bool {
			call(member, http.MethodGet, "/api/v1/promotions/"+promotion.EventID+"/me", nil, &mine)
			return mine.Status == m.status
		}, "the request of the "+m.name+" is settled")
		require.Equal(t, m.code, mine.ResultCode)
	}

	var succeeded float64
	for _, p := range w.podsOf(t, platform.Worker) {
		succeeded += p.metric(t, "urr_requests_total", `status="SUCCEEDED"`)
	}
	require.InDelta(t, 1, succeeded, 0)
}
