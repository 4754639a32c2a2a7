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

// TestRefusedByServices sends to every route of the reference invalid requests that only the
// services behind it can detect. The gateway returns the refusal with the status and the code of
// the table, and no store changes. Requests that the gateway refuses itself are tested there
// (TestBadInput of services/gateway/internal/app).
func TestRefusedByServices(t *testing.T) {
	t.Parallel()
	w := newInputWorld(t)
	all, rows := routes(t, w.p), maps.Clone(visitorRows)
	maps.Copy(rows, operatorRows)
	require.Len(t, rows, len(visitorRows)+len(operatorRows), "a route has one row")
	require.ElementsMatch(t, slices.Collect(maps.Keys(all)), slices.Collect(maps.Keys(rows)), "every route has its row")
	before := w.stores()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := asker{w: w, route: all[name], row: rows[name]}
		if c.row.none == "" {
			w.renew()
		}
		attempts := c.attempts(t)
		require.Equal(t, len(attempts) == 0, c.row.none != "", "%s: %d ways to ask, reason not to: %q", name, len(attempts), c.row.none)
		for _, a := range attempts {
			t.Run(name+"/"+a.name, func(t *testing.T) { a.ask(t, w, c.route.method) })
		}
		if len(attempts) > 0 {
			require.Equal(t, before, w.stores(), "after %s", name)
		}
	}
}

// text is a body that does not depend on the world.
func text(body string) func(*inputWorld) string { return func(*inputWorld) string { return body } }

// documented is one route of the platform's own reference.
type documented struct{ method, path, who string }

// routes reads the reference of a running gateway.
func routes(t *testing.T, p *harness.Platform) map[string]documented {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Who string `json:"x-urr-who"`
		}
	}
	p.Visitor().Must(t.Context(), http.MethodGet, "/docs/openapi.json", nil, &doc)
	all := map[string]documented{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			r := documented{method: strings.ToUpper(method), path: path, who: op.Who}
			all[r.method+" "+path] = r
		}
	}
	require.Greater(t, len(all), 35)
	return all
}

// aheadEpoch belongs to a line that restarts in the year 2100: a gateway that does not know an
// epoch asks queue.
const aheadEpoch = int64(4_102_444_800_000_000)

// attempt is one invalid request with the expected response.
type attempt struct {
	name, target, body string
	who                person
	keyless            bool
	want               want
	path               string // of the field that the error names; "": not checked
	later              bool   // the expected response follows successful ones
}

func (a attempt) ask(t *testing.T, w *inputWorld, method string) {
	t.Helper()
	send := func() harness.Answer { return w.send(method, a.target, a.body, a.who, a.keyless) }
	got := send()
	if a.later {
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

// asker creates the attempts for one route.
type asker struct {
	w     *inputWorld
	route documented
	row   inputRow
}

func (c asker) attempts(t *testing.T) []attempt {
	t.Helper()
	var out []attempt
	for _, b := range c.row.bad {
		a := c.as("member "+b.member+"="+b.value, b.want)
		a.body, a.path = wiretest.Changed(t, a.body, b.member, b.value), b.path
		out = append(out, a)
	}
	for query, refusal := range c.row.queries {
		a := c.as("query "+query, refusal)
		a.target += "?" + query
		out = append(out, a)
	}
	if c.row.keyed {
		a := c.as("no Idempotency-Key", keyMissing)
		a.keyless = true
		out = append(out, a)
	}
	if c.row.misused != (want{}) {
		out = append(out, c.as("misused", c.row.misused))
	}
	if c.row.unknown != (want{}) {
		a := c.as("unknown", c.row.unknown)
		param, absent := "{eventId}", c.w.absent
		switch path := c.route.path; {
		case strings.Contains(path, "{allocationId}"):
			param, absent = "{allocationId}", "999999999"
		case strings.Contains(path, "{reservationId}"):
			param, absent = "{reservationId}", absentID
		case c.row.promotion && !strings.Contains(path, param):
			param, absent = "{requestId}", uuid.NewString()
		}
		a.target, a.later = c.fill(param, absent), c.row.later
		out = append(out, a)
	}
	if c.route.who == "entry" {
		a := c.as("a slot that nobody has", noSlot)
		a.who.entry = c.w.p.EntryToken(c.w.calm, a.who.user, "a-slot", aheadEpoch, c.w.end)
		out = append(out, a)
	}
	if c.row.stranger != (want{}) {
		out = append(out, c.stranger())
	}
	return out
}

// as is the valid request of a user who may use the route.
func (c asker) as(name string, refusal want) attempt {
	a := attempt{name: name, target: c.fill("", ""), who: c.right(), want: refusal}
	if c.row.body != nil {
		a.body = c.row.body(c.w)
	}
	return a
}

// right is a user who may use the route.
func (c asker) right() person {
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

// fill inserts the world's ids into the path; one of them may be replaced.
func (c asker) fill(param, value string) string {
	event := c.w.calm
	if c.row.busy {
		event = c.w.busy
	}
	if c.row.campaign {
		event = c.w.campaign
	}
	request := c.w.request
	if c.row.promotion {
		event, request = c.w.promotion, c.w.applied
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

// stranger sends the request as another user with the same rights; only the provider signs
// webhooks.
func (c asker) stranger() attempt {
	a := c.as("stranger", c.row.stranger)
	if c.route.who != "public" {
		a.who = c.w.other
	}
	return a
}
