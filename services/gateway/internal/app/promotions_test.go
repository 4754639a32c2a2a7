package app_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/app"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// The response to an application has its URL in Location, and the ingest service's body.
func TestApply(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	apply := func() (*http.Response, map[string]any) {
		t.Helper()
		rec := w.do(http.MethodPost, "/api/v1/promotions/calm/requests", "{}", w.session(alice).with("Idempotency-Key", "key-1"))
		require.Equal(t, http.StatusAccepted, rec.Code, "%s", rec.Body)
		require.Equal(t, "/api/v1/requests/"+requestID, rec.Header().Get("Location"))
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		return rec.Result(), jsonOf(t, rec)
	}
	first, body := apply()
	require.Equal(t, "2", first.Header.Get("Retry-After"))
	require.Equal(t, map[string]any{"requestId": requestID, "status": "QUEUED", "uiResult": "PENDING", "duplicate": false}, body)
	sent, _ := w.ingest.of("Apply")[0].msg.(*ingestv1.ApplyItem)
	require.Equal(t, calm, sent.GetEventId())
	require.Equal(t, alice, sent.GetCaller().GetUserId())
	require.Equal(t, "key-1", sent.GetCaller().GetIdempotencyKey())

	w.ingest.applied.Store(&ingestv1.Applied{
		RequestId: requestID, Status: "QUEUED", UiResult: "PENDING", UiPhase: new("COLLECTING"), Duplicate: true, Receipt: new("receipt"),
	})
	lottery, body := apply()
	require.Equal(t, "30", lottery.Header.Get("Retry-After"))
	require.Equal(t, map[string]any{
		"requestId": requestID, "status": "QUEUED", "uiResult": "PENDING", "uiPhase": "COLLECTING", "duplicate": true, "receipt": "receipt",
	}, body)

	rec := w.do(http.MethodPost, "/api/promotions/absent/requests", "", w.session(alice).with("Accept-Language", "ko"))
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "PROMOTION_NOT_FOUND", problemOf(t, rec)["code"])
	require.Equal(t, http.StatusUnauthorized, w.do(http.MethodPost, "/api/v1/promotions/calm/requests", "{}", nil).Code)
}

// A user who has got SOLD_OUT gets it from memory for a minute. Other users' calls are forwarded.
func TestApplyToASoldOutPromotion(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, user := range []string{alice, alice, "bob", alice, "bob"} {
		rec := w.do(http.MethodPost, "/api/v1/promotions/"+soldOut+"/requests", "{}", w.session(user).with("Accept-Language", "ko"))
		require.Equal(t, http.StatusConflict, rec.Code)
		require.Equal(t, "SOLD_OUT", problemOf(t, rec)["code"])
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	}
	require.Len(t, w.ingest.of("Apply"), 2)
	rec := w.do(http.MethodPost, "/api/v1/promotions/calm/requests", "{}", w.session(alice))
	require.Equal(t, http.StatusAccepted, rec.Code, "another promotion")
}

// A user applies at an own time after the opening. Before it the gateway refuses the application from
// memory, and does not count it as a mutation. It refuses nobody once the promotion takes no more.
func TestApplyAtTheOwnTime(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) { c.Limits.UserRate, c.Limits.UserBurst = 0.0001, 3 })
	apply := func(user, event string) *httptest.ResponseRecorder {
		t.Helper()
		return w.do(http.MethodPost, "/api/v1/promotions/"+event+"/requests", "{}", w.session(user))
	}
	opens := start.Add(time.Minute)
	requireLater := func(user string) time.Time {
		t.Helper()
		rec := apply(user, awaited)
		require.Equal(t, http.StatusTooManyRequests, rec.Code)
		p := problemOf(t, rec)
		require.Equal(t, "ASK_LATER", p["code"])
		require.Equal(t, strconv.FormatInt(opens.UnixMilli(), 10), p["opensAt"])
		ms, err := strconv.ParseInt(p["asksAt"].(string), 10, 64)
		require.NoError(t, err)
		return time.UnixMilli(ms)
	}
	turn := requireLater(alice)
	require.False(t, turn.Before(opens))
	require.True(t, turn.Before(opens.Add(time.Minute)))
	for range 20 {
		require.Equal(t, turn, requireLater(alice))
	}
	require.NotEqual(t, turn, requireLater("bob"))
	w.clock.Set(turn.Add(-time.Millisecond))
	require.Equal(t, turn, requireLater(alice))
	require.Empty(t, w.ingest.of("Apply"))
	require.LessOrEqual(t, len(w.ingest.of("GetPromotion")), 2)
	w.clock.Set(turn)
	require.Equal(t, http.StatusAccepted, apply(alice, awaited).Code)
	require.Equal(t, http.StatusAccepted, apply("carol", ended).Code, "ingest decides")
}

// The gateway caches a promotion for all clients, and reads it again after an operator's change.
func TestPromotionsAreShared(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	read := func() {
		t.Helper()
		rec := w.do(http.MethodGet, "/api/v1/promotions/calm", "", nil)
		require.Equal(t, http.StatusOK, rec.Code)
		require.Equal(t, "public, max-age=0, s-maxage=1", rec.Header().Get("Cache-Control"))
		rec = w.do(http.MethodGet, "/api/v1/promotions/calm", "", credentials{"If-None-Match": rec.Header().Get("ETag")})
		require.Equal(t, http.StatusNotModified, rec.Code)
	}
	read()
	n := len(w.ingest.of("GetPromotion"))
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/admin/promotions/calm/pause", "{}", w.session("operator", "admin")).Code)
	read()
	require.Greater(t, len(w.ingest.of("GetPromotion")), n)
}

// While the waiting room of a promotion is active, applying requires its token; reading does not.
func TestWaitingRoomOfAPromotion(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	path := "/api/v1/promotions/busy/requests"
	rec := w.do(http.MethodPost, path, "", w.session(alice))
	require.Equal(t, http.StatusForbidden, rec.Code)
	require.Equal(t, "/vwr/busy", problemOf(t, rec)["redirectTo"])
	visitor := tier1Credentials(w, w.tier1, round, busy, w.now())
	require.Equal(t, http.StatusAccepted, w.do(http.MethodPost, path, "", w.session(alice).with("Cookie", visitor["Cookie"])).Code)
	for _, path := range []string{"/api/v1/promotions/busy", "/api/v1/promotions/busy/me"} {
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, path, "", w.session(alice)).Code, path)
	}
}

// Operators' calls reach the ingest and the worker service, other users' calls do not.
func TestOperatorsOfPromotions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("operator", "admin")
	for _, r := range w.gateway.Routes() {
		if r.RPC == ingestv1.IngestAdminService_CreatePromotion_FullMethodName {
			rec := w.do(r.Method, r.Pattern, bodyFor(r, calm), admin.with("Idempotency-Key", "key-1"))
			require.Equal(t, http.StatusCreated, rec.Code, "%s", rec.Body)
			require.Equal(t, "key-1", w.ingest.of("CreatePromotion")[0].caller.GetIdempotencyKey())
			require.Equal(t, http.StatusForbidden, w.do(r.Method, r.Pattern, bodyFor(r, calm), w.session(alice)).Code)
		}
	}
	rec := w.do(http.MethodGet, "/api/v1/admin/promotions/calm/requests?status=REJECTED&resultCode=REJECTED_CAPACITY&limit=5", "", admin)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	list, _ := w.ingest.of("ListRequests")[0].msg.(*ingestv1.ListRequestsRequest)
	require.Equal(t, "REJECTED", list.GetStatus())
	require.Equal(t, "REJECTED_CAPACITY", list.GetResultCode())
	require.Equal(t, calm, list.GetEventId())

	requestPath := "/api/v1/admin/requests/" + requestID
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, requestPath, "", admin).Code)
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, requestPath, "", w.session(alice)).Code, "also one's own: operators' paths are theirs")

	rec = w.do(http.MethodPost, "/api/v1/admin/dlq/requests/redrive", `{"ids":["`+requestID+`"]}`, admin)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	redrive, _ := w.worker.of("RedriveRequests")[0].msg.(*workerv1.RedriveRequestsRequest)
	require.Equal(t, []string{requestID}, redrive.GetIds())
	require.Equal(t, "operator", w.worker.of("RedriveRequests")[0].caller.GetUserId())

	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/admin/dlq/requests", "", admin).Code)
	require.Len(t, w.worker.of("ListDeadLetters"), 1, "before the parameter")
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/admin/dlq/admissions?limit=7", "", admin).Code)
	letters, _ := w.worker.of("ListAdmissionDeadLetters")[0].msg.(*workerv1.ListAdmissionDeadLettersRequest)
	require.Equal(t, int32(7), letters.GetLimit())
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/admin/dlq/admissions/redrive", `{"ids":["0-1"]}`, admin).Code)
	again, _ := w.worker.of("RedriveAdmissions")[0].msg.(*workerv1.RedriveAdmissionsRequest)
	require.Equal(t, []string{"0-1"}, again.GetIds())
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, "/api/v1/admin/dlq/admissions", "", w.session(alice)).Code)
}

// Without the ingest service there are no routes of promotions, also not in the API reference.
func TestWithoutPromotions(t *testing.T) {
	t.Parallel()
	w := newFixture(t, withoutPromotions)
	admin := w.session(alice, "admin")
	for path, method := range map[string]string{
		"/api/v1/promotions": http.MethodGet, "/api/v1/promotions/calm": http.MethodGet, "/api/v1/promotions/calm/requests": http.MethodPost,
		"/api/v1/my/requests": http.MethodGet, "/api/v1/requests/" + requestID: http.MethodGet, "/api/v1/admin/dlq/requests": http.MethodGet,
	} {
		rec := w.do(method, path, "", admin)
		require.Equal(t, http.StatusNotFound, rec.Code, path)
		require.Equal(t, "NOT_FOUND", problemOf(t, rec)["code"], path)
	}
	require.NotContains(t, w.do(http.MethodGet, "/docs/openapi.json", "", nil).Body.String(), "/promotions")

	browser, deployed := credentials{"Accept": "text/html"}, newFixture(t)
	for _, path := range []string{"/promo/calm", "/draws/calm"} {
		require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, path, "", browser).Code, path)
		require.Equal(t, http.StatusOK, deployed.do(http.MethodGet, path, "", browser).Code, path)
	}
	require.Contains(t, w.do(http.MethodGet, "/my", "", browser).Body.String(), `"promotions":false`)
	require.Contains(t, deployed.do(http.MethodGet, "/my", "", browser).Body.String(), `"promotions":true`)
}
