package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/edge"
)

// rightFor is a credential that every check of the route accepts.
func rightFor(w *world, r *edge.Route) credentials {
	switch r.Who {
	case edge.Admin, edge.Staff:
		return w.session(alice, "admin")
	case edge.Entry:
		return w.buyer(calm)
	case edge.User:
		return w.session(alice)
	case edge.Visitor:
		c, _ := w.visitor()
		return c
	default:
		return nil
	}
}

func takesJSON(w *world) []*edge.Route {
	var out []*edge.Route
	for _, r := range w.gateway.Routes() {
		if r.Body.JSON {
			out = append(out, r)
		}
	}
	return out
}

// TestBadInput sends every route that takes a body what none may take.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	routes := takesJSON(w)
	require.Greater(t, len(routes), 12)
	for _, r := range routes {
		valid := bodyFor(r, calm)
		if valid == "" {
			valid = "{}"
		}
		// with puts one more member into the valid body.
		with := func(member string) string {
			if valid == "{}" {
				return "{" + member + "}"
			}
			return "{" + member + "," + valid[1:]
		}
		cases := []struct {
			name, body, code string
			status           int
			contentType      string
		}{
			{name: "unknown member", body: with(`"surprise":1`), code: "UNKNOWN_FIELD"},
			{name: "caller", body: with(`"caller":{"userId":"root","roles":["admin"]}`), code: "UNKNOWN_FIELD"},
			{name: "caller null", body: with(`"caller":null`), code: "UNKNOWN_FIELD"},
			{name: "caller escaped", body: with(`"\u0063aller":{"userId":"root"}`), code: "UNKNOWN_FIELD"},
			{name: "too large", body: with(`"x":"` + strings.Repeat("a", 64<<10) + `"`), code: "BODY_TOO_LARGE"},
			{name: "no UTF-8", body: with("\"x\":\"\xff\xfe\""), code: "INVALID_UTF8"},
			{name: "an array", body: `[` + valid + `]`, code: "INVALID_REQUEST"},
			{name: "a string", body: `"x"`, code: "INVALID_REQUEST"},
			{name: "null", body: `null`, code: "INVALID_REQUEST"},
			{name: "cut", body: valid[:len(valid)-1], code: "INVALID_REQUEST"},
			{name: "two values", body: valid + valid, code: "INVALID_REQUEST"},
			{name: "a form", body: "a=b", code: "UNSUPPORTED_MEDIA_TYPE", status: http.StatusUnsupportedMediaType, contentType: "application/x-www-form-urlencoded"},
			{name: "no type", body: valid, code: "UNSUPPORTED_MEDIA_TYPE", status: http.StatusUnsupportedMediaType, contentType: "text/plain"},
			{name: "another charset", body: valid, code: "UNSUPPORTED_MEDIA_TYPE", status: http.StatusUnsupportedMediaType, contentType: "application/json; charset=euc-kr"},
		}
		for _, c := range cases {
			t.Run(r.ID+"/"+c.name, func(t *testing.T) {
				cred := rightFor(w, r)
				if c.contentType != "" {
					cred = cred.with("Content-Type", c.contentType)
				}
				rec := w.do(r.Method, target(r, calm), c.body, cred)
				if c.status == 0 {
					c.status = http.StatusBadRequest
				}
				require.Equal(t, c.status, rec.Code, "%s", rec.Body)
				require.Equal(t, c.code, problemOf(t, rec)["code"])
			})
		}
		t.Run(r.ID+"/caller in the query", func(t *testing.T) {
			for _, q := range []string{"?caller=x", "?caller.userId=root", "?caller.roles=admin", "?%63aller.user_id=root", "?caller%5BuserId%5D=root"} {
				rec := w.do(r.Method, target(r, calm)+q, valid, rightFor(w, r))
				require.Equal(t, "UNKNOWN_FIELD", problemOf(t, rec)["code"], q)
			}
		})
		t.Run(r.ID+"/valid", func(t *testing.T) {
			rec := w.do(r.Method, target(r, calm), valid, rightFor(w, r))
			require.Less(t, rec.Code, 405, "%s", rec.Body)
			rec = w.do(r.Method, target(r, calm), valid, rightFor(w, r).with("Content-Type", "application/json; charset=UTF-8"))
			require.Less(t, rec.Code, 405, "%s", rec.Body)
		})
	}
}

// TestBadMembers changes one member of a valid body at a time.
func TestBadMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("a", 65)
	for _, c := range []struct {
		route, member, value, code, path string
	}{
		{"seats.reserve", "eventId", `"` + long + `"`, "INVALID_ID", "eventId"},
		{"seats.reserve", "eventId", `""`, "INVALID_ID", "eventId"},
		{"seats.reserve", "eventId", `"a b"`, "INVALID_ID", "eventId"},
		{"seats.reserve", "eventId", `7`, "INVALID_REQUEST", "eventId"},
		{"seats.reserve", "seatIds", `"A-1-1"`, "INVALID_REQUEST", "seatIds"},
		{"reservations.best", "quantity", `"many"`, "INVALID_REQUEST", "quantity"},
		{"reservations.best", "quantity", `99999999999`, "INVALID_REQUEST", "quantity"},
		{"reservations.best", "adjacent", `"yes"`, "INVALID_REQUEST", "adjacent"},
		{"reservations.best", "eventId", ``, "INVALID_ID", "eventId"},
		{"PaymentService.Prepare", "referenceId", `"42"`, "INVALID_REQUEST", "referenceId"},
		{"PaymentService.Prepare", "paymentType", `"gift"`, "INVALID_REQUEST", "paymentType"},
		{"PaymentService.Prepare", "paymentType", ``, "INVALID_REQUEST", "paymentType"},
		{"PaymentService.Confirm", "orderId", `"` + long + `"`, "INVALID_REQUEST", "orderId"},
		{"PaymentService.Confirm", "amount", ``, "INVALID_REQUEST", "amount"},
		{"PaymentService.Confirm", "amount", `null`, "INVALID_REQUEST", "amount"},
		{"PaymentService.Confirm", "amount", `-1`, "INVALID_REQUEST", "amount"},
		{"PaymentService.Confirm", "amount", `1.5`, "INVALID_REQUEST", "amount"},
		{"QueueAdminService.SetThreshold", "threshold", `-1`, "INVALID_REQUEST", "threshold"},
		{"QueueAdminService.SetThreshold", "threshold", ``, "INVALID_REQUEST", "threshold"},
		{"EventAdminService.CreateEvent", "title", ``, "INVALID_REQUEST", "title"},
		{"EventAdminService.CreateEvent", "startsAt", `"tomorrow"`, "INVALID_REQUEST", "startsAt"},
		{"EventAdminService.CreateEvent", "sections", `[]`, "INVALID_REQUEST", "sections"},
		{"EventAdminService.CreateEvent", "sections", `[{"section":"A","price":-1,"capacity":1}]`, "INVALID_REQUEST", "sections[0].price"},
		{"EventAdminService.PutEvent", "seating", `"STANDING"`, "INVALID_REQUEST", "seating"},
		{"VwrAdminService.Activate", "batch", `0`, "INVALID_REQUEST", "batch"},
		{"auth.dev-login", "userId", `"a b"`, "INVALID_ID", "userId"},
		{"auth.dev-login", "userId", `"` + long + `"`, "INVALID_ID", "userId"},
		{"auth.dev-login", "userId", ``, "INVALID_ID", "userId"},
		{"auth.dev-login", "roles", `["root"]`, "INVALID_REQUEST", "roles"},
		{"auth.dev-login", "roles", `"admin"`, "INVALID_REQUEST", "roles"},
		{"auth.dev-login", "roles", `["admin", 7]`, "INVALID_REQUEST", "roles[1]"},
		{"vwr.assign", "userId", `7`, "INVALID_REQUEST", "userId"},
		{"EventAdminService.PutEvent", "eventId", `"calm"`, "UNKNOWN_FIELD", "eventId"}, // it stands in the path
		{"PaymentService.Confirm", "amount", `"55000"`, "INVALID_REQUEST", "amount"},
	} {
		t.Run(c.route+"/"+c.member+"="+c.value, func(t *testing.T) {
			for _, r := range takesJSON(w) {
				if r.ID != c.route {
					continue
				}
				rec := w.do(r.Method, target(r, calm), changed(t, bodyFor(r, calm), c.member, c.value), rightFor(w, r))
				require.Equal(t, http.StatusBadRequest, rec.Code, "%s", rec.Body)
				doc := problemOf(t, rec)
				require.Equal(t, c.code, doc["code"])
				field, _ := doc["fields"].([]any)[0].(map[string]any)
				require.Equal(t, c.path, field["path"])
			}
		})
	}
}

// changed returns a body with one member replaced, or removed when value is empty.
func changed(t *testing.T, body, member, value string) string {
	t.Helper()
	m := map[string]json.RawMessage{}
	if body != "" {
		require.NoError(t, json.Unmarshal([]byte(body), &m))
	}
	delete(m, member)
	if value != "" {
		m[member] = json.RawMessage(value)
	}
	out, err := json.Marshal(m)
	require.NoError(t, err)
	return string(out)
}

func TestQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.session(alice)
	for query, code := range map[string]string{
		"limit=abc": "INVALID_REQUEST", "limit=101": "INVALID_REQUEST", "limit=-1": "INVALID_REQUEST", "limit=1&limit=2": "INVALID_REQUEST",
		"limit=99999999999": "INVALID_REQUEST", "cursor=%ff": "INVALID_UTF8", "cursor=%zz": "INVALID_REQUEST", "caller.userId=bob": "UNKNOWN_FIELD",
		"cursor=" + strings.Repeat("x", 513): "INVALID_REQUEST",
	} {
		rec := w.do(http.MethodGet, "/api/v1/my/tickets?"+query, "", user)
		require.Equal(t, http.StatusBadRequest, rec.Code, query)
		require.Equal(t, code, problemOf(t, rec)["code"], query)
	}
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/my/tickets?limit=5&cursor=x&utm_source=y", "", user).Code)
	c, _ := w.visitor()
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID+"?userId=anon-1", "", c).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", `{"userId":"anon-1"}`, c).Code)
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"paymentType":"reservation","referenceId":"` + requestID + `"}`
	rec := w.do(http.MethodPost, "/api/v1/payments/prepare", body, w.session(alice).with("Idempotency-Key", `"8e03978e-40d5-43dd"`))
	require.Equal(t, http.StatusCreated, rec.Code, "%s", rec.Body)
	require.Equal(t, `"8e03978e-40d5-43dd"`, w.payment.of("Prepare")[0].caller.GetIdempotencyKey())
	for _, bad := range []string{strings.Repeat("k", 256), "a b", "schlüssel", "tab\tkey"} {
		rec := w.do(http.MethodPost, "/api/v1/payments/prepare", body, w.session(alice).with("Idempotency-Key", bad))
		require.Equal(t, "IDEMPOTENCY_KEY_INVALID", problemOf(t, rec)["code"], bad)
	}
	r := w.request(http.MethodPost, "/api/v1/payments/prepare", body, w.session(alice))
	r.Header["Idempotency-Key"] = []string{"one", "two"}
	two := httptest.NewRecorder()
	w.gateway.Handler.ServeHTTP(two, r)
	require.Equal(t, "IDEMPOTENCY_KEY_INVALID", problemOf(t, two)["code"], "nobody could say under which of two it is kept")
	require.Len(t, w.payment.of("Prepare"), 1)
}
