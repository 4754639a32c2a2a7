package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/wire"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/gateway/internal/edge"
)

func TestPassThrough(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodGet, "/api/v1/my/tickets/"+requestID, "", w.session(alice, "staff"))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	who := w.ticket.of("GetMyTicket")[0].caller
	require.Equal(t, alice, who.GetUserId())
	require.Empty(t, who.GetRoles(), "the route requires none")
	require.Empty(t, who.GetEventId())
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))

	rec = w.do(http.MethodPost, "/api/payments/prepare", `{"paymentType":"reservation","referenceId":"`+requestID+`"}`, w.session(alice))
	require.Equal(t, http.StatusCreated, rec.Code)
	require.InDelta(t, 55000, jsonOf(t, rec)["amount"], 0) // a number, not protojson's string

	rec = w.do(http.MethodDelete, "/api/v1/my/reservations/"+requestID, "", w.session(alice))
	require.Equal(t, http.StatusNoContent, rec.Code)
	require.Zero(t, rec.Body.Len())

	rec = w.do(http.MethodDelete, "/api/v1/reservations/"+requestID, "", w.buyer(calm))
	require.Equal(t, http.StatusNoContent, rec.Code)
	require.Equal(t, calm, w.ticket.of("CancelReservation")[0].caller.GetEventId())
	require.Len(t, w.queue.of("VerifySlots"), 1)

	rec = w.do(http.MethodGet, "/api/v1/events/absent", "", nil)
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "EVENT_NOT_FOUND", problemOf(t, rec)["code"])
	rec = w.do(http.MethodGet, "/api/v1/events/absent", "", credentials{"Accept-Language": "ko-KR,ko;q=0.9"})
	require.Equal(t, "존재하지 않는 공연입니다.", problemOf(t, rec)["detail"])
}

// No header of a client becomes metadata or the deadline of a call to a service.
func TestClientHeadersAreNotForwarded(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodGet, "/api/v1/my/tickets", "", w.session(alice).with("Grpc-Timeout", "1n").
		with("Grpc-Metadata-X-Urr-Caller", "gateway").with("X-User-Id", "root").with("Te", "trailers"))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	require.Equal(t, alice, w.ticket.of("ListMyTickets")[0].caller.GetUserId())
	for name := range rec.Header() {
		require.False(t, strings.HasPrefix(name, "Grpc-"), name)
	}
}

func TestEventsIncludeTheirWaitingRoom(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	var list struct {
		Items []struct {
			EventID     string `json:"eventId"`
			WaitingRoom struct{ Active bool }
		}
	}
	require.NoError(t, json.Unmarshal(w.do(http.MethodGet, "/api/v1/events", "", nil).Body.Bytes(), &list))
	require.Len(t, list.Items, 2)
	for _, e := range list.Items {
		require.Equal(t, e.EventID == busy, e.WaitingRoom.Active, e.EventID)
	}
	event := jsonOf(t, w.do(http.MethodGet, "/api/v1/events/busy", "", nil))
	require.Equal(t, map[string]any{"active": true}, event["waitingRoom"])
}

// An operator's PUT reaches the ticket service with the event id of the path.
func TestOperatorsPutEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session(alice, "admin")
	for _, r := range w.gateway.Routes() {
		switch r.ID {
		case "EventAdminService.CreateEvent":
			require.Equal(t, http.StatusCreated, w.do(r.Method, target(r, calm), bodyFor(r, calm), admin).Code)
		case "EventAdminService.PutEvent":
			require.Equal(t, http.StatusOK, w.do(r.Method, target(r, calm), bodyFor(r, calm), admin).Code)
		}
	}
	put, _ := w.ticket.of("PutEvent")[0].msg.(*ticketv1.PutEventRequest)
	require.Equal(t, calm, put.GetEventId())
}

// An operator reads the settings with their ETag, and replaces them on condition that they have not
// changed.
func TestEventSettingsWithIfMatch(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session(alice, "admin")
	rec := w.do(http.MethodGet, "/api/v1/admin/events/calm", "", admin)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	require.Equal(t, `"settings1"`, rec.Header().Get("ETag"))
	got := jsonOf(t, rec)
	require.EqualValues(t, 5, got["threshold"])
	require.NotContains(t, got, "etag", "it is not a member of the settings")
	require.NotContains(t, got, "slotSeconds", "the default is in force")
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, "/api/v1/admin/events/calm", "", w.session(alice)).Code)

	var put *edge.Route
	for _, r := range w.gateway.Routes() {
		if r.ID == "EventAdminService.PutEvent" {
			put = r
		}
	}
	putSettings := func(headers credentials) (*httptest.ResponseRecorder, string) {
		before := len(w.ticket.of("PutEvent"))
		with := maps.Clone(admin)
		maps.Copy(with, headers)
		rec := w.do(put.Method, target(put, calm), bodyFor(put, calm), with)
		if all := w.ticket.of("PutEvent"); len(all) > before {
			return rec, all[before].caller.GetIfMatch()
		}
		return rec, "refused"
	}
	rec, match := putSettings(credentials{"If-Match": `"settings1", "other"`})
	require.Equal(t, `"settings1", "other"`, match)
	require.Equal(t, `"put1"`, rec.Header().Get("ETag"))
	require.EqualValues(t, 5, jsonOf(t, rec)["threshold"])
	_, match = putSettings(nil)
	require.Empty(t, match)
	for _, bad := range []string{"\"\xff\"", strings.Repeat("a", 1025)} {
		rec, match = putSettings(credentials{"If-Match": bad})
		require.Equal(t, "refused", match)
		require.Equal(t, http.StatusBadRequest, rec.Code)
	}
	publicEvent := jsonOf(t, w.do(http.MethodGet, "/api/v1/events/calm", "", nil))
	require.NotContains(t, publicEvent, "threshold", "the public event has no settings")
	require.NotContains(t, publicEvent, "etag")
}

// A gateway uses an operator's change of a waiting room at once, before the vwr service streams it.
func TestOperatorChangesTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session(alice, "admin")
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/admin/vwr/activate/calm", `{"batch":10}`, admin).Code)
	require.Equal(t, http.StatusFound, w.do(http.MethodGet, "/events/calm", "", nil).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/admin/vwr/deactivate/calm", "", admin).Code)
	require.NotEqual(t, http.StatusFound, w.do(http.MethodGet, "/events/calm", "", nil).Code)
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	body := "{\"raw\": \xff not json"
	rec := w.do(http.MethodPost, "/api/v1/payments/webhooks/sandbox", body, credentials{
		"Content-Type": "application/x-anything", "Stripe-Signature": "t=1,v1=ab", "Cookie": "urr-session=secret", "Authorization": "Bearer secret",
	})
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	in, _ := w.payment.of("HandleWebhook")[0].msg.(*paymentv1.HandleWebhookRequest)
	require.Equal(t, []byte(body), in.GetBody())
	require.Equal(t, "sandbox", in.GetProvider())
	require.Equal(t, "t=1,v1=ab", in.GetHeaders()["stripe-signature"])
	require.NotContains(t, in.GetHeaders(), "cookie")
	require.NotContains(t, in.GetHeaders(), "authorization")

	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/payments/webhooks/sandbox", strings.Repeat("x", 256<<10), nil).Code)
	require.Equal(t, http.StatusBadRequest, w.do(http.MethodPost, "/api/v1/payments/webhooks/sandbox", "x", credentials{"X-Big": strings.Repeat("x", 9<<10)}).Code)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodPost, "/api/auth/dev-login", `{"userId":"bob@example.com","roles":["staff"]}`, nil)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	m := jsonOf(t, rec)
	require.Equal(t, "bob@example.com", m["userId"])
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	ck := cookieOf(rec, "urr-session")
	require.Equal(t, m["token"], ck.Value)
	require.True(t, ck.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, ck.SameSite)
	require.Equal(t, 3600, ck.MaxAge)

	for name, c := range map[string]credentials{
		"cookie": {"Cookie": "urr-session=" + ck.Value}, "bearer": {"Authorization": "bearer " + ck.Value},
		"a good cookie behind a bad bearer": {"Authorization": "Bearer x", "Cookie": "a=b; urr-session=" + ck.Value},
	} {
		me := jsonOf(t, w.do(http.MethodGet, "/api/v1/auth/me", "", c))
		require.Equal(t, "bob@example.com", me["userId"], name)
		require.Equal(t, []any{"staff"}, me["roles"], name)
		require.NotContains(t, me, "token")
	}
	rec = w.do(http.MethodPost, "/api/v1/auth/logout", "", credentials{"Cookie": "urr-session=" + ck.Value})
	require.Equal(t, http.StatusNoContent, rec.Code)
	require.Negative(t, cookieOf(rec, "urr-session").MaxAge)

	require.Equal(t, "UNAUTHENTICATED", problemOf(t, w.do(http.MethodGet, "/api/v1/auth/me", "", nil))["code"])
	require.Equal(t, "SESSION_INVALID", problemOf(t, w.do(http.MethodGet, "/api/v1/auth/me", "", credentials{"Cookie": "urr-session=x"}))["code"])
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, c := range []credentials{{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}} {
		rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", c)
		require.Equal(t, http.StatusForbidden, rec.Code)
		require.Equal(t, "CROSS_ORIGIN", problemOf(t, rec)["code"])
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/events", "", c).Code)
	}
	for _, c := range []credentials{nil, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://example.com"}, {"Sec-Fetch-Site": "none"}} {
		require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", c).Code)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodGet, "/api/v1/events", "", nil)
	require.Len(t, rec.Header().Get("X-Request-Id"), 36)
	require.Equal(t, "nosniff", rec.Header().Get("X-Content-Type-Options"))
	require.Contains(t, rec.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.Empty(t, rec.Header().Get("Strict-Transport-Security"))
	rec = w.do(http.MethodGet, "/api/v1/auth/me", "", nil)
	require.Equal(t, rec.Header().Get("X-Request-Id"), problemOf(t, rec)["requestId"])
	require.JSONEq(t, `{"status":"ok"}`, w.do(http.MethodGet, "/health", "", nil).Body.String())
}

// The response of each route is parsed into its declared message, as strictly as a request is.
func TestResponsesMatchTheirMessages(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	read := 0
	for _, r := range w.gateway.Routes() {
		if r.Answer == nil || r.Status == http.StatusNoContent { // a response without a body
			continue
		}
		rec := w.do(r.Method, target(r, calm), bodyFor(r, calm), validCredentials(w, r))
		if slices.Contains([]string{"vwr.assign", "vwr.challenge", "vwr.check"}, r.ID) || strings.Contains(r.Pattern, "/shuffle/") {
			rec = w.do(r.Method, target(r, busy), "", validCredentials(w, r))
		}
		if r.ID == "vwr.lobby" {
			rec = w.do(r.Method, target(r, lobbied), "{}", validCredentials(w, r))
		}
		require.Contains(t, []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}, rec.Code, "%s: %s", r, rec.Body)
		body, answer := rec.Body.Bytes(), r.Answer.ProtoReflect().New().Interface()
		if r.Stream { // the message is the data of an SSE event
			_, body, _ = bytes.Cut(body, []byte("data: "))
		}
		if r.ID == "seats.changes" { // the first SSE event has all seats
			answer = &ticketv1.Availability{}
		}
		require.NoError(t, wire.Unmarshal(body, answer), "%s: %s", r, rec.Body)
		read++
	}
	require.GreaterOrEqual(t, read, 13)
}

// A buyer returns from a payment provider's page without a session, perhaps in another browser.
func TestReturnFromAProvider(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodGet, "/api/v1/payments/return/sandbox?orderId=o-1&token=t&paymentKey=ok-1", "", nil)
	require.Equal(t, http.StatusSeeOther, rec.Code, rec.Body)
	require.Equal(t, "/checkout/"+requestID+"#sandbox/p-1?orderId=o-1&paymentKey=ok-1&token=t", rec.Header().Get("Location"))
	transfer := w.do(http.MethodGet, "/api/v1/payments/return/sandbox?orderId=o-transfer&token=t", "", nil)
	require.Equal(t, "/transfers/"+requestID+"#sandbox/p-1?orderId=o-transfer&token=t", transfer.Header().Get("Location"))
	membership := w.do(http.MethodGet, "/api/v1/payments/return/sandbox?orderId=o-membership&token=t", "", nil)
	require.Equal(t, "/memberships/"+requestID+"#sandbox/p-1?orderId=o-membership&token=t", membership.Header().Get("Location"))
	stateOnly := w.do(http.MethodGet, "/api/v1/payments/return/sandbox?orderId=o-1&token=t&looks", "", nil)
	require.Equal(t, http.StatusOK, stateOnly.Code)
	require.JSONEq(t, `{"paymentId":"p-1","paymentType":"reservation","referenceId":"`+requestID+`","status":"PENDING"}`, stateOnly.Body.String())
	require.Equal(t, "no-store", stateOnly.Header().Get("Cache-Control"))
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, "/api/v1/payments/return/sandbox?orderId=o-1&token=x", "", nil).Code)
	manyParams := "/api/v1/payments/return/sandbox?orderId=o-1&token=t"
	for i := range 40 {
		manyParams += fmt.Sprintf("&p%d=x", i)
	}
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, manyParams, "", nil).Code)
	longParam := "/api/v1/payments/return/sandbox?orderId=o-1&token=t&p=" + strings.Repeat("x", 512)
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, longParam, "", nil).Code)
	korean := "/api/v1/payments/return/sandbox?orderId=o-1&token=t&message=" + url.QueryEscape(strings.Repeat("가", 500))
	require.Equal(t, http.StatusSeeOther, w.do(http.MethodGet, korean, "", nil).Code, "a message of 1,500 bytes")
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, "/api/v1/payments/return/BANK", "", nil).Code)
}
