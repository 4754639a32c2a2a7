package e2e_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/pkg/wire/wiretest"
	"urr.guru/scripts/harness"
)

// TestRefusedByServices sends invalid requests, which only the services behind the gateway can
// detect, to every route of the API reference. The gateway returns the refusal with the expected
// status and code, and no store changes. Requests that the gateway itself refuses are in
// TestBadInput of services/gateway/internal/app.
func TestRefusedByServices(t *testing.T) {
	t.Parallel()
	w := newInputWorld(t)
	all, rows := routes(t, w.p), maps.Clone(visitorRows)
	maps.Copy(rows, operatorRows)
	require.Len(t, rows, len(visitorRows)+len(operatorRows), "a route has one row")
	require.ElementsMatch(t, slices.Collect(maps.Keys(all)), slices.Collect(maps.Keys(rows)), "every route has its row")
	before := w.stores()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := attemptBuilder{w: w, route: all[name], row: rows[name]}
		if c.row.noneBecause == "" {
			w.renew()
		}
		attempts := c.attempts(t)
		require.Equal(t, len(attempts) == 0, c.row.noneBecause != "", "%s: %d ways to ask, reason not to: %q", name, len(attempts), c.row.noneBecause)
		for _, a := range attempts {
			t.Run(name+"/"+a.name, func(t *testing.T) { a.requireRefusal(t, w, c.route.method) })
		}
		if len(attempts) > 0 {
			require.Equal(t, before, w.stores(), "after %s", name)
		}
	}
}

// text returns a request body that needs no ids of the world.
func text(body string) func(*inputWorld) string { return func(*inputWorld) string { return body } }

// documentedRoute is one route of the API reference.
type documentedRoute struct{ method, path, who string }

// routes reads the API reference from a running gateway.
func routes(t *testing.T, p *harness.Platform) map[string]documentedRoute {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Who string `json:"x-urr-who"`
		}
	}
	p.Visitor().MustCall(t.Context(), http.MethodGet, "/docs/openapi.json", nil, &doc)
	all := map[string]documentedRoute{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			r := documentedRoute{method: strings.ToUpper(method), path: path, who: op.Who}
			all[r.method+" "+path] = r
		}
	}
	require.Greater(t, len(all), 35)
	return all
}

// futureEpoch is the epoch of a line in the year 2100, in microseconds. A gateway that does not
// know an epoch asks the queue service.
const futureEpoch = int64(4_102_444_800_000_000)

// attempt is one invalid request with the expected response.
type attempt struct {
	name, target, body string
	who                person
	keyless            bool
	want               want
	path               string // of the invalid field in the error; "": not checked
	delayed            bool   // the refusal may follow successful responses
}

func (a attempt) requireRefusal(t *testing.T, w *inputWorld, method string) {
	t.Helper()
	send := func() *harness.Answer { return w.send(method, a.target, a.body, a.who, a.keyless) }
	got := send()
	if a.delayed {
		testkit.Until(t, func() bool { got = send(); return got.Status/100 != 2 }, "%s is refused", a.target)
	}
	require.Equal(t, a.want.status, got.Status, "%s %s: %s", a.target, a.body, got.Body)
	require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"))
	var problem struct {
		Code, Error, RequestID string
		Fields                 []struct{ Path string }
	}
	require.NoError(t, json.Unmarshal(got.Body, &problem))
	require.Equal(t, a.want.code, problem.Code, "%s: %s", a.body, got.Body)
	require.NotEmpty(t, problem.Error)
	require.NotEmpty(t, problem.RequestID)
	if a.path != "" {
		require.NotEmpty(t, problem.Fields, "%s", got.Body)
		require.Equal(t, a.path, problem.Fields[0].Path, "%s", got.Body)
	}
}

// attemptBuilder creates the attempts for one route.
type attemptBuilder struct {
	w     *inputWorld
	route documentedRoute
	row   inputRow
}

func (c attemptBuilder) attempts(t *testing.T) []attempt {
	t.Helper()
	var out []attempt
	for _, b := range c.row.bad {
		a := c.validAttempt("member "+b.member+"="+b.value, b.want)
		a.body, a.path = wiretest.Changed(t, a.body, b.member, b.value), b.path
		out = append(out, a)
	}
	for query, refusal := range c.row.queries {
		a := c.validAttempt("query "+query, refusal)
		a.target += "?" + query
		out = append(out, a)
	}
	if c.row.keyed {
		a := c.validAttempt("no Idempotency-Key", keyMissing)
		a.keyless = true
		out = append(out, a)
	}
	if c.row.misused != (want{}) {
		out = append(out, c.validAttempt("misused", c.row.misused))
	}
	if c.row.unknown != (want{}) {
		a := c.validAttempt("unknown", c.row.unknown)
		param, absent := "{eventId}", c.w.absent
		switch path := c.route.path; {
		case strings.Contains(path, "{allocationId}"):
			param, absent = "{allocationId}", "999999999"
		case strings.Contains(path, "{reservationId}"):
			param, absent = "{reservationId}", absentID
		case strings.Contains(path, "{paymentId}"):
			param, absent = "{paymentId}", absentID
		case c.row.promotion && !strings.Contains(path, param):
			param, absent = "{requestId}", uuid.NewString()
		}
		a.target, a.delayed = c.fill(param, absent), c.row.delayed
		out = append(out, a)
	}
	if c.route.who == "entry" {
		a := c.validAttempt("a slot that nobody has", noSlot)
		a.who.entry = c.w.p.EntryToken(c.w.calm, a.who.user, "a-slot", futureEpoch, c.w.end)
		out = append(out, a)
	}
	if c.row.stranger != (want{}) {
		out = append(out, c.stranger())
	}
	return out
}

// validAttempt returns the route's valid request of a user who may use the route.
func (c attemptBuilder) validAttempt(name string, refusal want) attempt {
	a := attempt{name: name, target: c.fill("", ""), who: c.allowed(), want: refusal}
	if c.row.body != nil {
		a.body = c.row.body(c.w)
	}
	return a
}

// allowed returns a user who may use the route.
func (c attemptBuilder) allowed() person {
	switch c.route.who {
	case "public":
		return person{}
	case "admin":
		return person{session: c.w.p.SessionToken("operator", "admin")}
	case "staff":
		return person{session: c.w.p.SessionToken("door", "staff")}
	default:
		return c.w.owner
	}
}

// fill returns the route's path with the ids of the test's data. If param is not empty, value takes
// the place of that parameter's id.
func (c attemptBuilder) fill(param, value string) string {
	event := c.w.calm
	if c.row.busy {
		event = c.w.busy
	}
	if c.row.campaign {
		event = c.w.campaign
	}
	request := c.w.request
	if c.row.promotion {
		event, request = c.w.promotion, c.w.application
	}
	values := map[string]string{
		"{eventId}": event, "{reservationId}": c.w.held.ReservationID, "{paymentId}": c.w.paying.PaymentID, "{ticketId}": c.w.ticket,
		"{requestId}": request, "{topic}": "payment-events", "{provider}": "sandbox", "{allocationId}": c.w.reward, "{name}": "point",
		"{chunk}":        "0",
		"{refundId}":     absentID,
		"{transferId}":   absentID,
		"{batchId}":      absentID,
		"{list}":         "partners",
		"{differenceId}": absentID,
		"{planId}":       absentID,
		"{membershipId}": absentID,
		"{versionId}":    absentID,
	}
	if param != "" {
		values[param] = value
	}
	path := c.route.path
	for name, v := range values {
		path = strings.ReplaceAll(path, name, v)
	}
	return path
}

// stranger returns the request of another user with the same rights. On a public route it stays as
// it is, since only the provider signs webhooks.
func (c attemptBuilder) stranger() attempt {
	a := c.validAttempt("stranger", c.row.stranger)
	if c.route.who != "public" {
		a.who = c.w.other
	}
	return a
}
