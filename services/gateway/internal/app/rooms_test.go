package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/app"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

func (w *fixture) ticketFor(event, visitor string, round, position int64) string {
	return claims.VwrTicket{Round: round, RequestID: uuidOf(w.t, requestID), Position: position}.
		Seal(w.tickets.Derive(claims.LabelVwrTicket), event, visitor)
}

func TestAssign(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil)
	require.Equal(t, http.StatusOK, rec.Code)
	require.InDelta(t, 7, jsonOf(t, rec)["position"], 0)
	anon := cookieOf(rec, "urr-anon")
	require.NotNil(t, anon)
	require.True(t, anon.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, anon.SameSite)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	id := w.vwr.of("Assign")[0].caller.GetAnonId()
	require.NotEmpty(t, id)

	// The same visitor keeps the id and gets no new cookie.
	rec = w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "{}", credentials{"Cookie": "urr-anon=" + anon.Value})
	require.Nil(t, cookieOf(rec, "urr-anon"))
	require.Equal(t, id, w.vwr.of("Assign")[1].caller.GetAnonId())

	// A forged cookie counts as none: the visitor gets a new id.
	rec = w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "{}", credentials{"Cookie": "urr-anon=" + anon.Value[:len(anon.Value)-3] + "AAA"})
	require.NotNil(t, cookieOf(rec, "urr-anon"))
	require.NotEqual(t, id, w.vwr.of("Assign")[2].caller.GetAnonId())

	// Without the stream of room states, which a busy machine may break, vwr would decide.
	testkit.Until(t, w.gateway.Rooms.Connected, "the states of the waiting rooms")
	rec = w.do(http.MethodPost, "/vwr-api/vwr/assign/calm", "", nil)
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "VWR_INACTIVE", problemOf(t, rec)["code"])
	require.Len(t, w.vwr.of("Assign"), 3)
}

func TestCheckFromMemory(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	const path = "/vwr-api/vwr/check/busy/" + requestID
	rec := w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 1100)))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	m := jsonOf(t, rec)
	require.Equal(t, false, m["admitted"])
	require.InDelta(t, 1100, m["position"], 0)
	require.InDelta(t, 100, m["servingCounter"], 0)
	require.InDelta(t, 1000, m["ahead"], 0)
	require.InDelta(t, 20, m["estimatedWait"], 0) // 1,000 at the measured 50/s
	require.InDelta(t, 5, m["nextPoll"], 1)
	require.Empty(t, w.vwr.of("Check"), "waiting visitors need no call")

	// A position of an earlier round is void.
	rec = w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round-1, 1)))
	require.Equal(t, "VWR_REQUEST_UNKNOWN", problemOf(t, rec)["code"])
	require.Empty(t, w.vwr.of("Check"))

	require.Equal(t, "VISITOR_REQUIRED", problemOf(t, w.do(http.MethodGet, path, "", nil))["code"])
}

func TestCheckAsksVWR(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	_, other := w.visitor()
	w.vwr.checkResult = func(i *vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Checked{Checked: &vwrv1.Checked{
			Admitted: true, Position: 42, Token: proto.String("tok"), ExpiresAt: proto.Int64(w.now().Add(600 * time.Second).Unix()),
		}}}
	}
	const path = "/vwr-api/vwr/check/busy/" + requestID
	served := w.ticketFor(busy, id, round, 42)
	rec := w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", served))
	require.Equal(t, "tok", jsonOf(t, rec)["token"])
	ck := cookieOf(rec, "urr-vwr-token")
	require.NotNil(t, ck)
	require.Equal(t, "tok", ck.Value)
	require.Equal(t, 600, ck.MaxAge)
	require.True(t, ck.HttpOnly)
	item, _ := w.vwr.of("Check")[0].msg.(*vwrv1.CheckItem)
	require.Equal(t, served, item.GetTicket())
	require.Equal(t, id, item.GetCaller().GetAnonId())

	// A ticket that is not valid for this visitor, event and request is not forwarded. The vwr service
	// then decides by the position that it has stored.
	for name, ticket := range map[string]string{
		"none": "", "another visitor's": w.ticketFor(busy, other, round, 42), "another event's": w.ticketFor(calm, id, round, 42),
		"garbage": "AAAA", "cut": served[:len(served)-1],
	} {
		before := len(w.vwr.of("Check"))
		w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", ticket))
		item, _ := w.vwr.of("Check")[before].msg.(*vwrv1.CheckItem)
		require.Empty(t, item.GetTicket(), name)
	}

	w.vwr.checkResult = func(*vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Problem{Problem: errs.ToProblem(errs.ErrVWRRequestUnknown)}}
	}
	rec = w.do(http.MethodGet, path, "", c)
	require.Equal(t, http.StatusNotFound, rec.Code)
}

// A check for an event that the vwr service has never reported is answered without a call. With a
// valid ticket, and while the stream is broken, the vwr service decides.
func TestCheckOfMadeUpEventCostsNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	const path = "/vwr-api/vwr/check/made-up/" + requestID
	for _, c := range []credentials{c, c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 1))} {
		require.Equal(t, "VWR_REQUEST_UNKNOWN", problemOf(t, w.do(http.MethodGet, path, "", c))["code"])
	}
	require.Empty(t, w.vwr.of("Check"))
	w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", w.ticketFor("made-up", id, round, 1)))
	require.Len(t, w.vwr.of("Check"), 1)
}

// The gateway caches for a second that something does not exist: repeated requests cause one call.
func TestMissingPublicPagesAreAskedForOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for range 3 {
		rec := w.do(http.MethodGet, "/api/v1/rewards/absent", "", nil)
		require.Equal(t, http.StatusNotFound, rec.Code)
		require.Equal(t, "CAMPAIGN_NOT_FOUND", problemOf(t, rec)["code"])
	}
	require.Len(t, w.reward.of("GetCampaign"), 1)
	for range 2 {
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/rewards/there", "", nil).Code)
	}
	require.Len(t, w.reward.of("GetCampaign"), 3, "what exists is read")
}

func TestServingAndStatus(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil)
	require.JSONEq(t, `{"servingCounter":100,"isActive":true}`, rec.Body.String())
	require.Contains(t, rec.Header().Get("Cache-Control"), "s-maxage=1")
	require.Empty(t, rec.Header().Values("Set-Cookie"))
	etag := rec.Header().Get("ETag")
	require.NotEmpty(t, etag)
	rec = w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", credentials{"If-None-Match": etag})
	require.Equal(t, http.StatusNotModified, rec.Code)

	w.vwr.report(&vwrv1.Counter{EventId: busy, Active: true, Round: round, Serving: 150, Issued: 5100})
	testkit.Until(t, func() bool {
		return w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", credentials{"If-None-Match": etag}).Code == http.StatusOK
	}, "the changed counters")
	rec = w.do(http.MethodGet, "/vwr-api/vwr/status/busy", "", nil)
	require.JSONEq(t, `{"eventId":"busy","isActive":true,"totalInQueue":5100,"serving":150,"waitingCount":4950}`, rec.Body.String())
	rec = w.do(http.MethodGet, "/vwr-api/vwr/status/unheard-of", "", nil)
	require.JSONEq(t, `{"eventId":"unheard-of","isActive":false,"totalInQueue":0,"serving":0,"waitingCount":0}`, rec.Body.String())
}

// The response to a check contains where an admitted visitor goes next, even after the room's end.
func TestNextOfARoom(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, _ := w.visitor()
	admitted := false
	w.vwr.checkResult = func(*vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Checked{Checked: &vwrv1.Checked{Admitted: admitted, Position: 42}}}
	}
	check := func() any {
		return jsonOf(t, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c))["next"]
	}
	status := func() map[string]any { return jsonOf(t, w.do(http.MethodGet, "/vwr-api/vwr/status/busy", "", nil)) }
	require.Nil(t, status()["next"], "vwr has not told yet")
	for _, active := range []bool{true, false} {
		w.vwr.report(&vwrv1.Counter{EventId: busy, Active: active, Round: round, Serving: 100, Issued: 5000, Next: "PROMO"})
		testkit.Until(t, func() bool { s := status(); return s["isActive"] == active && s["next"] == "PROMO" }, "the report")
		admitted = false
		require.Nil(t, check())
		admitted = true
		require.Equal(t, "PROMO", check())
	}
}

// A genuine ticket is valid only for the request id that it was issued for.
func TestTicketOfAnotherRequest(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	const foreign = "01990f5e-7b5a-7c3e-9d1a-000000000000"
	w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+foreign, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 4000)))
	item, _ := w.vwr.of("Check")[0].msg.(*vwrv1.CheckItem)
	require.Equal(t, foreign, item.GetRequestId())
	require.Empty(t, item.GetTicket(), "the record of that request decides")
}

// Only responses that caches must not keep set the visitor's cookie. Otherwise a shared cache would
// give one id to many visitors.
func TestVisitorCookieOnUncachedResponsesOnly(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, r := range w.gateway.Routes() {
		rec := w.do(r.Method, target(r, busy), bodyFor(r, busy), nil)
		if cookieOf(rec, "urr-anon") != nil {
			require.Contains(t, []string{"vwr.assign", "vwr.challenge"}, r.ID)
			require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		}
	}
	rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/calm", "", nil)
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
}

// A shared cache keeps the response for a second. Then it revalidates it and gets no body.
func TestServingIsRevalidated(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const path = "/vwr-api/vwr/serving/busy"
	first := w.do(http.MethodGet, path, "", nil)
	tag := first.Header().Get("ETag")
	for _, known := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
		rec := w.do(http.MethodGet, path, "", credentials{"If-None-Match": known})
		require.Equal(t, http.StatusNotModified, rec.Code, known)
		require.Empty(t, rec.Body.Bytes())
		require.Equal(t, tag, rec.Header().Get("ETag"))
		require.Equal(t, first.Header().Get("Cache-Control"), rec.Header().Get("Cache-Control"))
	}
	for _, unknown := range []string{"", `"other"`, tag[1:], tag + "x"} {
		rec := w.do(http.MethodGet, path, "", credentials{"If-None-Match": unknown})
		require.Equal(t, http.StatusOK, rec.Code, unknown)
		require.Equal(t, first.Body.String(), rec.Body.String())
	}
}

// While the stream is broken, the last states are used. For new rooms the vwr service is called.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	w.vwr.down.Store(true)
	testkit.Until(t, func() bool { return !w.gateway.Rooms.Connected() }, "the end of the stream")
	require.NoError(t, w.gateway.Ready(t.Context()))
	require.JSONEq(t, `{"servingCounter":100,"isActive":true}`, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil).Body.String())
	rec := w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 1100)))
	require.Equal(t, false, jsonOf(t, rec)["admitted"])
	require.Empty(t, w.vwr.of("Check"))
	require.Equal(t, http.StatusFound, w.do(http.MethodGet, "/events/busy", "", c).Code, "the room is still enforced")
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/vwr-api/vwr/assign/calm", "", c).Code)
	require.Len(t, w.vwr.of("Assign"), 1)

	w.vwr.down.Store(false)
	testkit.Until(t, w.gateway.Rooms.Connected, "a new stream")
	require.Equal(t, "VWR_INACTIVE", problemOf(t, w.do(http.MethodPost, "/vwr-api/vwr/assign/calm", "", c))["code"])
}

func TestTier1Disabled(t *testing.T) {
	t.Parallel()
	w := newFixture(t, withoutTier1)
	require.Equal(t, "VWR_INACTIVE", problemOf(t, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil))["code"])
	c, _ := w.visitor()
	require.Equal(t, "VWR_INACTIVE", problemOf(t, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c))["code"])
	require.JSONEq(t, `{"servingCounter":0,"isActive":false}`, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil).Body.String())
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/seats/busy", "", w.buyer(busy)).Code)
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, "/api/v1/admin/vwr/status/busy", "", w.session(alice, "admin")).Code)
}

// A gateway enforces a room from the message of its activation to that of its deactivation.
func TestActivationNeedsNoRestart(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	required := func() bool {
		before := len(w.queue.of("Check"))
		require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/queue/check/calm", "", w.session(alice)).Code)
		return w.queue.of("Check")[before].caller.GetTier1().GetRequired()
	}
	for i, active := range []bool{true, false, true} {
		status := map[bool]int{true: http.StatusFound, false: http.StatusOK}
		require.Equal(t, status[!active], w.do(http.MethodGet, "/events/calm", "", nil).Code)
		require.Equal(t, !active, required(), "what queue is told")
		w.vwr.report(&vwrv1.Counter{EventId: calm, Active: active, Round: round + int64(i/2)})
		testkit.Until(t, func() bool { return w.do(http.MethodGet, "/events/calm", "", nil).Code == status[active] }, "active: %v", active)
		require.Equal(t, active, required(), "what queue is told")
	}
}

// While vwr says that it has lost its store, a room may be active that is not known here. Then nobody
// without a slot passes for lack of a room, for a while; who does not need that knowledge goes on.
func TestNobodyPassesWhileRoomsAreUncertain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := w.session(alice)
	paths := []string{"/api/v1/queue/check/calm", "/api/v1/rewards/calm/attendance"}
	// A slot of an earlier epoch is none.
	former := c.with("X-Queue-Entry-Token", w.sign(w.entries, claims.NewEntry(calm, alice, slot, epoch-1, w.now().Add(time.Minute), w.now())))
	uncertain := func() bool { // on a slow machine it may have lasted for so long that vwr counts as away
		w.vwr.stalled.Store(true)
		testkit.Until(t, func() bool { return !w.gateway.Rooms.Connected() }, "the message")
		defer func() {
			w.vwr.stalled.Store(false)
			testkit.Until(t, w.gateway.Rooms.Connected, "the next message")
		}()
		before := len(w.queue.of("Check"))
		for _, path := range paths {
			rec := w.do(http.MethodPost, path, "", former)
			if rec.Code != http.StatusServiceUnavailable {
				return false
			}
			require.Equal(t, "UNAVAILABLE", problemOf(t, rec)["code"], path)
		}
		require.Len(t, w.queue.of("Check"), before, "nobody joins the line")
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/events/calm", "", nil).Code, "a page admits nobody")
		require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/queue/check/busy", "", c).Code, "the room is known")
		require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/queue/check/calm", "", w.buyer(calm)).Code, "a slot")
		return true
	}
	testkit.Until(t, uncertain, "refusals")
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, paths[0], "", c).Code)
}

// One network gets a limited number of visitor ids. A visitor who asks again with the cookie keeps
// the one position. Only a signed cookie counts as an id.
func TestAnonymousIDsAreLimited(t *testing.T) {
	t.Parallel()
	const allowed, attempts = 5, 100
	w := newFixture(t, func(c *app.Config, _ *app.Services) { c.Limits.NewVisitorRate, c.Limits.NewVisitorBurst = 0.1, allowed })
	var cookies []string
	for i := range attempts {
		// This client sends no cookie, or one that is made up.
		c := credentials{"User-Agent": "agent " + requestID[:i%10]}
		if i%2 == 0 {
			c = c.with("Cookie", "urr-anon="+requestID)
		}
		rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", `{"userId":"anon-`+requestID[i%10:]+`"}`, c)
		if anon := cookieOf(rec, "urr-anon"); anon != nil {
			cookies = append(cookies, anon.Value)
		} else {
			require.Equal(t, http.StatusTooManyRequests, rec.Code, "%s", rec.Body)
		}
	}
	require.Len(t, cookies, allowed)
	for range attempts {
		require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "{}", credentials{"Cookie": "urr-anon=" + cookies[0]}).Code)
	}
	ids := map[string]bool{}
	for _, c := range w.vwr.of("Assign") {
		ids[c.caller.GetAnonId()] = true
	}
	require.Len(t, ids, allowed, "as many positions as ids")
}
