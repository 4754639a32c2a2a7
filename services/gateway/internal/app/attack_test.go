package app_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/edge"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// A gateway that has just started does not know the waiting rooms yet. Until it does, it must not
// treat an event with an active room as open.
func TestUnreadyGatewayRefusesRequests(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	unready := w.assemble(t)
	require.Error(t, unready.Ready(t.Context()))
	for _, r := range unready.Routes() {
		rec := respond(unready, w.request(r.Method, target(r, busy), bodyFor(r, busy), validCredentials(w, r)))
		if r.Page && r.Event == edge.None || r.Access == edge.Admin {
			require.Empty(t, rec.Header().Get("Retry-After"), "%s: %d", r, rec.Code)
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, rec.Code, "%s: %s", r, rec.Body)
		require.Equal(t, "UNAVAILABLE", problemOf(t, rec)["code"], "%s", r)
		require.Equal(t, "1", rec.Header().Get("Retry-After"), "%s", r)
	}
}

// A method that no route of a path declares is refused. The header Allow lists the declared ones.
func TestUndeclaredMethodsAreRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	declared := map[string][]string{}
	for _, r := range w.gateway.Routes() {
		p := target(r, calm)
		declared[p] = append(declared[p], r.Method)
	}
	admin := w.buyer(calm).with("Authorization", w.session(alice, "admin")["Authorization"])
	for path, methods := range declared {
		if slices.Contains(methods, http.MethodGet) {
			methods = append(methods, http.MethodHead)
		}
		// A literal segment and a parameter can match the same path: POST /seats/reserve is a route of
		// its own, and GET /seats/reserve means the event "reserve".
		rec := w.do("NONSENSE", path, "", admin)
		require.Equal(t, http.StatusMethodNotAllowed, rec.Code, path)
		allowed := strings.Split(rec.Header().Get("Allow"), ", ")
		require.Subset(t, allowed, methods, path)
		for _, method := range []string{
			http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect, "get", "PROPFIND",
		} {
			if slices.Contains(allowed, method) {
				continue
			}
			rec := w.do(method, path, "", admin)
			require.Equal(t, http.StatusMethodNotAllowed, rec.Code, "%s %s", method, path)
			require.Equal(t, "METHOD_NOT_ALLOWED", problemOf(t, rec)["code"])
			require.ElementsMatch(t, allowed, strings.Split(rec.Header().Get("Allow"), ", "), "%s %s", method, path)
		}
	}
}

// HEAD has the status of GET on every route, with and without credentials.
func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	srv := httptest.NewServer(w.gateway.Handler)
	t.Cleanup(srv.Close)
	client := srv.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, r := range w.gateway.Routes() {
		if r.Method != http.MethodGet {
			continue
		}
		event := calm
		if strings.Contains(r.Pattern, "/shuffle/") {
			event = busy // calm has no shuffle, which the gateway caches for a second only
		}
		for _, c := range []credentials{nil, validCredentials(w, r)} {
			status := map[string]int{}
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+target(r, event), http.NoBody)
				require.NoError(t, err)
				for k, v := range c {
					req.Header.Set(k, v)
				}
				res, err := client.Do(req)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				status[method] = res.StatusCode
			}
			require.Equal(t, status[http.MethodGet], status[http.MethodHead], "%s", r)
		}
	}
}

// A parameter in the query does not override a parameter in the path.
func TestQueryCannotOverrideThePath(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const other = "01990f5e-7b5a-7c3e-9d1a-ffffffffffff"
	for _, q := range []string{"ticketId=" + other, "ticket_id=" + other, "ticketId=" + other + "&ticketId=" + other, "ticketId[x]=" + other, "ticketId.x=1"} {
		w.do(http.MethodGet, "/api/v1/my/tickets/"+requestID+"?"+q, "", w.session(alice))
	}
	for _, c := range w.ticket.of("GetMyTicket") {
		in, _ := c.msg.(*ticketv1.GetMyTicketRequest)
		require.Equal(t, requestID, in.GetTicketId())
		require.Equal(t, alice, c.caller.GetUserId())
	}
	w.do(http.MethodGet, "/api/v1/stats/events/calm?eventId=busy&event_id=busy", "", nil)
	for _, c := range w.stats.of("GetEventStats") {
		in, _ := c.msg.(*statsv1.GetEventStatsRequest)
		require.Equal(t, calm, in.GetEventId())
	}
}

// The headers of a webhook call are forwarded, except the credentials of users.
func TestWebhooksForwardNoCredentials(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	secret := credentials{
		"Cookie": "urr-session=s", "Authorization": "Bearer s", "Proxy-Authorization": "Basic s", "X-Cloudfront-Verified": "cdn-secret",
		"X-Queue-Entry-Token": "s", "X-Queue-Ticket": "s", "X-Vwr-Ticket": "s", "X-Sandbox-Signature": "t=1",
	}
	rec := w.do(http.MethodPost, "/api/v1/payments/webhooks/sandbox", "{}", secret)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	in, _ := w.payment.of("HandleWebhook")[0].msg.(*paymentv1.HandleWebhookRequest)
	for name := range secret {
		if name == "X-Sandbox-Signature" {
			require.Contains(t, in.GetHeaders(), strings.ToLower(name))
			continue
		}
		require.NotContains(t, in.GetHeaders(), strings.ToLower(name))
	}
}

// Errors have security headers, also on unknown paths and fast-path routes, both as documents and
// as pages.
func TestErrorsHaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) { c.SecureCookies, c.DevLogin = true, false })
	for path, status := range map[string]int{
		"/nothing": http.StatusNotFound, "/api/v1/seats/a%7Bb": http.StatusBadRequest, "/api/v1/auth/me": http.StatusUnauthorized,
		"/vwr-api/vwr/check/busy/" + requestID: http.StatusUnauthorized, "/api/v1/auth/logout": http.StatusMethodNotAllowed,
	} {
		rec := w.do(http.MethodGet, path, "", credentials{"X-Request-Id": "mine"})
		require.Equal(t, status, rec.Code, path)
		requireSecurityHeaders(t, rec)
		require.Equal(t, "default-src 'none'; frame-ancestors 'none'", rec.Header().Get("Content-Security-Policy"), path)
		require.Equal(t, problemOf(t, rec)["requestId"], rec.Header().Get("X-Request-Id"), path)

		rec = w.do(http.MethodGet, path, "", credentials{"X-Request-Id": "mine", "Accept": "text/html", "Sec-Fetch-Mode": "navigate"})
		require.Equal(t, status, rec.Code, path)
		requireSecurityHeaders(t, rec)
	}
}

func requireSecurityHeaders(t testing.TB, rec *httptest.ResponseRecorder) {
	t.Helper()
	h := rec.Header()
	require.NotEmpty(t, h.Get("X-Request-Id"))
	require.NotEqual(t, "mine", h.Get("X-Request-Id"), "request ids are not taken from clients")
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", h.Get("Cache-Control"))
	require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe")
	require.Equal(t, "DENY", h.Get("X-Frame-Options"))
	require.NotEmpty(t, h.Get("Strict-Transport-Security"))
}

// Rate limits apply to requests through the whole handler, whatever address a client claims.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) {
		c.Limits = app.Limits{Keys: 1000, NetworkRate: 0.01, NetworkBurst: 3, UserRate: 0.01, UserBurst: 2}
	})
	send := func(from, forwarded string, c credentials) *httptest.ResponseRecorder {
		r := w.request(http.MethodPost, "/api/v1/queue/check/calm", "", c)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", forwarded)
		r.Header.Set("Forwarded", "for="+forwarded)
		r.Header.Set("X-Real-Ip", forwarded)
		rec := httptest.NewRecorder()
		w.gateway.Handler.ServeHTTP(rec, r)
		return rec
	}
	refused := func(rec *httptest.ResponseRecorder) {
		t.Helper()
		require.Equal(t, http.StatusTooManyRequests, rec.Code, "%s", rec.Body)
		doc := problemOf(t, rec)
		require.Equal(t, "RATE_LIMITED", doc["code"])
		after, err := strconv.Atoi(rec.Header().Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, after)
		require.InDelta(t, after, doc["retryAfter"], 0)
	}
	for i := range 3 {
		rec := send("[2001:db8:1:2::"+strconv.Itoa(i+1)+"]:9", "10.0.0."+strconv.Itoa(i), nil)
		require.Equal(t, http.StatusUnauthorized, rec.Code, "%s", rec.Body)
	}
	refused(send("[2001:db8:1:2:ffff::9]:9", "10.0.0.9", nil)) // the same /64
	require.Equal(t, http.StatusUnauthorized, send("[2001:db8:1:3::1]:9", "10.0.0.9", nil).Code)

	user := w.session(alice)
	require.Equal(t, http.StatusOK, send("203.0.113.1:9", "", user).Code)
	require.Equal(t, http.StatusOK, send("203.0.113.2:9", "", user).Code)
	refused(send("203.0.113.3:9", "", user)) // one user behind many addresses
	require.Equal(t, http.StatusOK, send("203.0.113.3:9", "", w.session(mallory)).Code)
}
