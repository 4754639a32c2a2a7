package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/wire/wiretest"
	"urr.guru/services/gateway/internal/edge"
)

// validCredentials returns credentials that pass every check of the route.
func validCredentials(w *fixture, r *edge.Route) credentials {
	switch r.Access {
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

// attempt is a bad request and the expected error.
type attempt struct {
	name, target, body string
	header             credentials // in addition to valid credentials
	status             int         // 0: 400
	code               string
	path               string // of the member in the error; "": not checked
}

// TestBadInput sends to every route all input that the gateway itself or the rules of the messages
// refuse. No call reaches a service. Input that only the services can refuse is tested on the whole
// platform, in scripts/e2e.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	doc := readReference(t, w)
	for _, r := range w.gateway.Routes() {
		c := attemptBuilder{route: r, input: inputs[r.ID], doc: doc, described: doc.describe(r), valid: bodyFor(r, calm)}
		if c.valid == "" {
			c.valid = "{}"
		}
		validCred := validCredentials(w, r)
		for _, a := range c.attempts(t) {
			t.Run(r.ID+"/"+a.name, func(t *testing.T) {
				cred := validCred
				for name, value := range a.header {
					cred = cred.with(name, value)
				}
				rec := w.do(r.Method, a.target, a.body, cred)
				requireRefused(t, rec, a)
			})
		}
	}
	require.Empty(t, w.serviceCalls(), "no call reaches a service")
}

func requireRefused(t *testing.T, rec *httptest.ResponseRecorder, a attempt) {
	t.Helper()
	want := a.status
	if want == 0 {
		want = http.StatusBadRequest
	}
	require.Equal(t, want, rec.Code, "%s %s", a.target, rec.Body)
	doc := problemOf(t, rec)
	require.Equal(t, a.code, doc["code"], "%s", rec.Body)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"), "errors are not cached")
	if a.path != "" {
		fields, _ := doc["fields"].([]any)
		require.NotEmpty(t, fields, "%s", rec.Body)
		field, _ := fields[0].(map[string]any)
		require.Equal(t, a.path, field["path"], "%s", rec.Body)
	}
}

// The valid bodies that TestBadInput modifies are accepted. So are unknown parameters and fields
// that clients and trackers may add.
func TestGoodInput(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	routes := 0
	for _, r := range w.gateway.Routes() {
		if !r.Body.JSON {
			continue
		}
		require.Contains(t, inputs, r.ID, "every route that takes JSON needs a row")
		routes++
		body := bodyFor(r, calm)
		for _, c := range []credentials{validCredentials(w, r), validCredentials(w, r).with("Content-Type", "application/json; charset=UTF-8")} {
			rec := w.do(r.Method, target(r, calm), body, c)
			if r.ID == "vwr.assign" {
				rec = w.do(r.Method, target(r, busy), `{"userId":"anon-1"}`, c)
			}
			if r.ID == "vwr.lobby" {
				rec = w.do(r.Method, target(r, lobbied), body, c)
			}
			require.Less(t, rec.Code, 300, "%s: %s", r, rec.Body)
		}
	}
	require.Greater(t, routes, 12)
	rec := w.do(http.MethodGet, "/api/v1/my/tickets?limit=5&cursor=x&utm_source=y", "", w.session(alice))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	c, _ := w.visitor()
	rec = w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID+"?userId=anon-1", "", c)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
}

// A request without a body is refused exactly if the API reference says that it needs one.
func TestRequestsWithoutBody(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	doc := readReference(t, w)
	optional := 0
	for _, r := range w.gateway.Routes() {
		if !r.Body.JSON {
			continue
		}
		rec := w.do(r.Method, target(r, calm), "", validCredentials(w, r))
		if doc.describe(r).needsBody {
			require.Equal(t, http.StatusBadRequest, rec.Code, "%s: %s", r, rec.Body)
			continue
		}
		optional++
		require.NotEqual(t, http.StatusBadRequest, rec.Code, "%s: %s", r, rec.Body)
	}
	require.Positive(t, optional)
}

// attemptBuilder makes the attempts for one route.
type attemptBuilder struct {
	route *edge.Route
	input input
	doc   reference
	described
	valid string // a valid body
}

func (c attemptBuilder) attempts(t *testing.T) []attempt {
	t.Helper()
	out := slices.Concat(c.paths(), c.queries())
	if c.route.Body.Raw {
		out = append(out, attempt{name: "too large", target: target(c.route, calm), body: strings.Repeat("x", edge.MaxWebhook+1), code: "BODY_TOO_LARGE"})
	}
	if c.route.Body.JSON {
		require.NotNil(t, c.described.members, "the reference describes the body")
		out = slices.Concat(out, c.bodies(), c.members(t))
	}
	return out
}

// badIDs are path segments that are no id of any kind, with their error codes.
var badIDs = map[string]string{
	strings.Repeat("a", 65): "INVALID_ID", strings.Repeat("a", 3000): "INVALID_ID", "a%20b": "INVALID_ID", "a:b": "INVALID_ID", "a%23b": "INVALID_ID",
	"%7Ba%7D": "INVALID_ID", "a;b": "INVALID_ID", "%C3%A9": "INVALID_ID", "%ff": "INVALID_UTF8", "%00": "INVALID_REQUEST", "%5c": "INVALID_REQUEST",
}

// badServiceIDs returns valid event ids that are no canonical UUIDs, or for rewards no numbers.
func badServiceIDs(param string) []string {
	if param == "allocation_id" {
		return []string{requestID, "0x17", "-1", "1234567890123456789", "%D9%A1"}
	}
	return []string{"42", strings.ToUpper(requestID), requestID + "0", "%7B" + requestID + "%7D"}
}

// paths replaces each parameter of the path by bad values.
func (c attemptBuilder) paths() []attempt {
	var out []attempt
	add := func(param, value, code string, status int) {
		spoiled := *c.route
		spoiled.Pattern = strings.Replace(c.route.Pattern, "{"+param+"}", value, 1)
		if c.route.Page && code == "INVALID_ID" { // a page with a mistyped id does not exist
			code, status = "NOT_FOUND", http.StatusNotFound
			if strings.HasPrefix(c.route.Pattern, "/events/") {
				code = "EVENT_NOT_FOUND"
			}
		}
		name := param + "=" + value[:min(len(value), 70)]
		out = append(out, attempt{name: name, target: target(&spoiled, calm), body: bodyFor(c.route, calm), code: code, status: status})
	}
	for _, param := range c.route.Params() {
		for bad, code := range badIDs {
			if strings.HasSuffix(param, "_id") || code != "INVALID_ID" {
				add(param, bad, code, 0)
			}
		}
		if strings.HasSuffix(param, "_id") && param != "event_id" {
			for _, bad := range badServiceIDs(param) {
				add(param, bad, "INVALID_ID", 0)
			}
		}
		if param == "provider" {
			add(param, "Sand_box", "PROVIDER_UNKNOWN", http.StatusNotFound)
			add(param, strings.Repeat("a", 33), "PROVIDER_UNKNOWN", http.StatusNotFound)
			add(param, strings.Repeat("a", 129), "INVALID_ID", 0)
		}
		if param == "name" {
			add(param, "POINT", "INVALID_REQUEST", 0)
			if !strings.Contains(c.route.Pattern, "/webhooks/") { // webhooks may have any name
				add(param, "cash", "INVALID_REQUEST", 0)
			}
		}
	}
	return out
}

// badQueries are refused on all routes. Other unknown parameters are ignored.
var badQueries = map[string]string{
	"x=%00": "INVALID_REQUEST", "%00=x": "INVALID_REQUEST", "x=%ff": "INVALID_UTF8", "%ff=x": "INVALID_UTF8", "x=%zz": "INVALID_REQUEST",
	"caller=x": "UNKNOWN_FIELD", "caller.userId=root": "UNKNOWN_FIELD", "caller.roles=admin": "UNKNOWN_FIELD",
	"%63aller.user_id=root": "UNKNOWN_FIELD", "caller%5BuserId%5D=root": "UNKNOWN_FIELD",
}

func (c attemptBuilder) queries() []attempt {
	if c.route.Page {
		return nil // see TestPagesAcceptAnyQuery
	}
	bad := maps.Clone(badQueries)
	maps.Copy(bad, c.input.queries)
	for _, name := range c.numbers {
		for _, v := range []string{"abc", "1.5", "%223%22", "1e2", "true", "99999999999"} {
			bad[name+"="+v] = "INVALID_REQUEST"
		}
	}
	var out []attempt
	for query, code := range bad {
		name := query[:min(len(query), 70)]
		out = append(out, attempt{name: "?" + name, target: target(c.route, calm) + "?" + query, body: bodyFor(c.route, calm), code: code})
	}
	return out
}

// bodies returns attempts whose body is no JSON object in UTF-8, or has an unknown field.
func (c attemptBuilder) bodies() []attempt {
	// with adds a member to the valid body.
	with := func(member string) string {
		if c.valid == "{}" {
			return "{" + member + "}"
		}
		return "{" + member + "," + c.valid[1:]
	}
	out := []attempt{
		{name: "unknown member", body: with(`"surprise":1`), code: "UNKNOWN_FIELD", path: "surprise"},
		{name: "unknown member null", body: with(`"surprise":null`), code: "UNKNOWN_FIELD", path: "surprise"},
		{name: "caller", body: with(`"caller":{"userId":"root","roles":["admin"]}`), code: "UNKNOWN_FIELD", path: "caller"},
		{name: "caller null", body: with(`"caller":null`), code: "UNKNOWN_FIELD", path: "caller"},
		{name: "caller escaped", body: with(`"\u0063aller":{"userId":"root"}`), code: "UNKNOWN_FIELD", path: "caller"},
		{name: "too large", body: with(`"x":"` + strings.Repeat("a", edge.MaxBody) + `"`), code: "BODY_TOO_LARGE"},
		{name: "no UTF-8", body: with("\"x\":\"\xff\xfe\""), code: "INVALID_UTF8"},
		{name: "an array", body: `[` + c.valid + `]`, code: "INVALID_REQUEST"},
		{name: "a string", body: `"x"`, code: "INVALID_REQUEST"},
		{name: "null", body: `null`, code: "INVALID_REQUEST"},
		{name: "cut", body: c.valid[:len(c.valid)-1], code: "INVALID_REQUEST"},
		{name: "two values", body: c.valid + c.valid, code: "INVALID_REQUEST"},
		{name: "a form", body: "a=b", header: credentials{"Content-Type": "application/x-www-form-urlencoded"}},
		{name: "text", body: c.valid, header: credentials{"Content-Type": "text/plain"}},
		{name: "no content type", body: c.valid, header: credentials{"Content-Type": ""}},
		{name: "compressed", body: c.valid, header: credentials{"Content-Encoding": "gzip"}},
		{name: "another charset", body: c.valid, header: credentials{"Content-Type": "application/json; charset=euc-kr"}},
	}
	for i := range out {
		out[i].target = target(c.route, calm)
		if out[i].header != nil {
			out[i].status, out[i].code = http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE"
		}
	}
	return out
}

// members returns attempts in which one field of the valid body has another type, is null or
// absent, or has a refused value.
func (c attemptBuilder) members(t *testing.T) []attempt {
	t.Helper()
	var out []attempt
	add := func(name, member, value, code, path string) {
		out = append(out, attempt{name: name, target: target(c.route, calm), body: wiretest.Changed(t, c.valid, member, value), code: code, path: path})
	}
	for _, name := range slices.Sorted(maps.Keys(c.described.members)) {
		for _, m := range c.doc.wrongTypes(c.described.members[name]) {
			add(name+"="+m.value, name, m.value, "INVALID_REQUEST", name+m.path)
		}
	}
	for name, code := range c.input.required {
		add(name+" absent", name, "", code, name)
		add(name+" null", name, "null", code, name)
	}
	for i, b := range c.input.bad {
		path := b.path
		switch path {
		case "":
			path = b.member
		case wholeBody:
			path = ""
		}
		add(fmt.Sprintf("%s %d=%.70s", b.member, i, b.value), b.member, b.value, b.code, path)
	}
	return out
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
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
	require.Equal(t, "IDEMPOTENCY_KEY_INVALID", problemOf(t, two)["code"], "two keys are ambiguous")
	require.Len(t, w.payment.of("Prepare"), 1)
}

// A tier-1 path that lacks a segment does not exist. An event without a room gives no positions.
func TestUnknownRoomPaths(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, _ := w.visitor()
	for _, path := range []string{"assign/", "assign"} {
		requireRefused(t, w.do(http.MethodPost, "/vwr-api/vwr/"+path, "", c), attempt{status: http.StatusNotFound, code: "NOT_FOUND"})
	}
	requireRefused(t, w.do(http.MethodGet, "/vwr-api/vwr/check/busy", "", c), attempt{status: http.StatusNotFound, code: "NOT_FOUND"})
	requireRefused(t, w.do(http.MethodPost, "/vwr-api/vwr/assign/unheard-of", "", c), attempt{status: http.StatusNotFound, code: "VWR_INACTIVE"})
	require.Empty(t, w.serviceCalls())
}

func TestPagesAcceptAnyQuery(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for query := range badQueries {
		for _, q := range []string{query, "a=1;b=2", "%", "a=1&&=&"} {
			require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/?"+q, "", credentials{}).Code, q)
		}
	}
}
