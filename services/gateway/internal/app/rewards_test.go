package app_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"
)

// The response to a new entry has status 201. A repeated request gets the same body with 200.
func TestNewEntryIs201AndRepeatedEntryIs200(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, path := range []string{"/api/v1/rewards/calm/attendance", "/api/rewards/calm/draw"} {
		w.reward.repeated.Store(false)
		rec := w.do(http.MethodPost, path, "", w.session(alice).with("Idempotency-Key", "key-1"))
		require.Equal(t, http.StatusCreated, rec.Code, "%s", rec.Body)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		first := jsonOf(t, rec)
		require.Equal(t, false, first["repeated"])
		w.reward.repeated.Store(true)
		rec = w.do(http.MethodPost, path, "{}", w.session(alice).with("Idempotency-Key", "key-1"))
		require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
		again := jsonOf(t, rec)
		require.Equal(t, first["entryId"], again["entryId"])
		require.Equal(t, true, again["repeated"])
	}
	require.Equal(t, alice, w.reward.of("Attend")[0].caller.GetUserId())
	require.Equal(t, "key-1", w.reward.of("Draw")[0].caller.GetIdempotencyKey())
}

// While the waiting room of a campaign is active, taking part requires its token, but reading does
// not. No route of campaigns requires an entry token.
func TestWaitingRoomOfACampaign(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, path := range []string{"/api/v1/rewards/busy/attendance", "/api/v1/rewards/busy/draw"} {
		rec := w.do(http.MethodPost, path, "", w.session(alice))
		require.Equal(t, http.StatusForbidden, rec.Code)
		require.Equal(t, "/vwr/busy", problemOf(t, rec)["redirectTo"])
		visitor := tier1Credentials(w, w.tier1, round, busy, w.now())
		rec = w.do(http.MethodPost, path, "", w.session(alice).with("Cookie", visitor["Cookie"]))
		require.Equal(t, http.StatusCreated, rec.Code, "%s", rec.Body)
	}
	for _, path := range []string{"/api/v1/rewards/busy", "/api/v1/rewards/busy/me", "/rewards/busy"} {
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, path, "", w.session(alice)).Code, path)
	}
}

func TestUnknownCampaign(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for method, path := range map[string]string{http.MethodGet: "/api/v1/rewards/absent", http.MethodPost: "/api/v1/rewards/absent/draw"} {
		rec := w.do(method, path, "", w.session(alice).with("Accept-Language", "ko"))
		require.Equal(t, http.StatusNotFound, rec.Code)
		doc := problemOf(t, rec)
		require.Equal(t, "CAMPAIGN_NOT_FOUND", doc["code"])
		require.Equal(t, "존재하지 않는 캠페인입니다.", doc["detail"])
	}
}

// Without the reward service, its routes and pages do not exist, nor does the reference list them.
func TestWithoutRewards(t *testing.T) {
	t.Parallel()
	w := newFixture(t, withoutRewards)
	admin := w.session(alice, "admin")
	for path, method := range map[string]string{
		"/api/v1/rewards/calm": http.MethodGet, "/api/v1/rewards/calm/me": http.MethodGet, "/api/v1/rewards/calm/draw": http.MethodPost,
		"/api/v1/my/rewards": http.MethodGet, "/api/v1/admin/rewards?status=FAILED": http.MethodGet, "/rewards/calm": http.MethodGet,
	} {
		rec := w.do(method, path, "", admin.with("Accept", "application/json"))
		require.Equal(t, http.StatusNotFound, rec.Code, path)
		require.Equal(t, "NOT_FOUND", problemOf(t, rec)["code"], path)
	}
	browser := credentials{"Accept": "text/html", "Accept-Language": "ko"}
	page := w.do(http.MethodGet, "/rewards/calm", "", browser)
	require.Equal(t, http.StatusNotFound, page.Code)
	require.Contains(t, page.Body.String(), "요청하신 주소를 찾을 수 없습니다.")
	require.NotContains(t, w.do(http.MethodGet, "/docs/openapi.json", "", nil).Body.String(), "/rewards")
	require.Contains(t, w.do(http.MethodGet, "/my", "", browser).Body.String(), `"rewards":false`)

	deployed := newFixture(t)
	require.Contains(t, deployed.do(http.MethodGet, "/my", "", browser).Body.String(), `"rewards":true`)
	campaign := deployed.do(http.MethodGet, "/rewards/calm", "", browser)
	require.Equal(t, http.StatusOK, campaign.Code)
	policy := deployed.do(http.MethodGet, "/events/calm", "", browser).Header().Get("Content-Security-Policy")
	require.Equal(t, policy, campaign.Header().Get("Content-Security-Policy"))
}

// The examples of the API reference are parsed as strictly as a request.
func TestExamplesMatchTheirMessages(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	var doc struct {
		Paths map[string]map[string]struct {
			Description string
			Responses   map[string]struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
	require.NoError(t, json.Unmarshal(w.do(http.MethodGet, "/docs/openapi.json", "", nil).Body.Bytes(), &doc))
	examples := 0
	for _, r := range w.gateway.Routes() {
		if r.Example == "" {
			continue
		}
		examples++
		require.NoError(t, wire.Unmarshal([]byte(r.Example), answerOf(t, r)), "%s", r)
		op := doc.Paths[documentedPath(r)][map[string]string{http.MethodGet: "get", http.MethodPost: "post"}[r.Method]]
		status := "200"
		if r.Status != 0 {
			status = strconv.Itoa(r.Status)
		}
		require.JSONEq(t, r.Example, string(op.Responses[status].Content["application/json"].Example), "%s", r)
		require.Equal(t, r.RepeatsAnswer, status == "201" && op.Responses["200"].Content != nil, "%s", r)
		require.Contains(t, op.Description, "Errors:", "%s", r)
	}
	require.Greater(t, examples, 5)
}

// answerOf returns an empty response message of a route.
func answerOf(t *testing.T, r *edge.Route) proto.Message {
	t.Helper()
	if r.Answer != nil {
		return r.Answer.ProtoReflect().New().Interface()
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(r.RPC[1:], "/", ".")))
	require.NoError(t, err)
	method, ok := d.(protoreflect.MethodDescriptor)
	require.True(t, ok)
	return dynamicpb.NewMessage(method.Output())
}
