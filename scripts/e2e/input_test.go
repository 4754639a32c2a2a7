package e2e_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
)

// TestBadInput asks every route of the reference in every wrong way, on the whole platform. What is refused has the status and the code
// of the table, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newInputWorld(t)
	all, doc := routes(t, w.p)
	require.ElementsMatch(t, slices.Collect(maps.Keys(all)), slices.Collect(maps.Keys(inputRows)), "every route has its row")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w.renew()
		c := asker{w: w, doc: doc, route: all[name], row: inputRows[name]}
		before := w.stores()
		for _, cl := range classes {
			attempts := c.attempts(t, cl)
			reason := c.row.none[cl]
			require.Equal(t, len(attempts) == 0, reason != "", "%s, %s: %d ways to ask, reason not to: %q", name, cl, len(attempts), reason)
			for _, a := range attempts {
				t.Run(name+"/"+string(cl)+"/"+a.name, func(t *testing.T) { a.ask(t, w, c.route.method) })
			}
		}
		require.Equal(t, before, w.stores(), "after %s", name)
	}
}

// attempt is one bad request with the answer that it must get.
type attempt struct {
	name, target, body string
	who                person
	want               want
	path               string // of the member that is named as wrong; "" = not looked at
}

func (a attempt) ask(t *testing.T, w *inputWorld, method string) {
	t.Helper()
	got := w.send(method, a.target, a.body, a.who)
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

// asker makes the attempts for one route.
type asker struct {
	w     *inputWorld
	doc   document
	route documented
	row   inputRow
}

func (c asker) attempts(t *testing.T, cl class) []attempt {
	t.Helper()
	switch cl {
	case unknownMember:
		return c.unknownMember(t)
	case wrongType:
		return c.wrongType(t)
	case missingMember:
		return c.missing(t)
	case longID:
		return c.long(t)
	case largeBody:
		return c.large(t)
	case badUTF8:
		return c.utf8(t)
	case unknownEvent:
		return c.event()
	case expiredToken:
		return c.tokens(true)
	case forgedToken:
		return c.tokens(false)
	default:
		return c.stranger()
	}
}

// right is who may use the route.
func (c asker) right() person {
	switch c.route.who {
	case "public":
		return person{}
	case "admin":
		return person{session: c.w.p.SessionToken("operator", "admin")}
	default:
		return c.w.owner
	}
}

func (c asker) body() string {
	if c.row.body == nil {
		return ""
	}
	return c.row.body(c.w)
}

// fill puts the world's ids into the path; one of them may be another.
func (c asker) fill(param, value string) string {
	event := c.w.calm
	if c.row.busy {
		event = c.w.busy
	}
	values := map[string]string{
		"{eventId}": event, "{reservationId}": c.w.held.ReservationID, "{paymentId}": c.w.paying.PaymentID, "{ticketId}": c.w.ticket,
		"{requestId}": c.w.request, "{provider}": "sandbox",
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

// params are the path's parameters, in braces.
func (c asker) params() []string {
	var out []string
	for seg := range strings.SplitSeq(c.route.path, "/") {
		if strings.HasPrefix(seg, "{") {
			out = append(out, seg)
		}
	}
	return out
}

func (c asker) with(name, body string, w want, path string) attempt {
	return attempt{name: name, target: c.fill("", ""), body: body, who: c.right(), want: w, path: path}
}

func (c asker) unknownMember(t *testing.T) []attempt {
	t.Helper()
	if c.route.members == nil {
		return nil
	}
	unknown := want{http.StatusBadRequest, "UNKNOWN_FIELD"}
	return []attempt{
		c.with("surprise", changed(t, c.body(), "surprise", `1`), unknown, "surprise"),
		c.with("null", changed(t, c.body(), "surprise", `null`), unknown, "surprise"),
		c.with("caller", changed(t, c.body(), "caller", `{"userId":"operator","roles":["admin"]}`), unknown, "caller"),
	}
}

func (c asker) wrongType(t *testing.T) []attempt {
	t.Helper()
	var out []attempt
	for _, name := range slices.Sorted(maps.Keys(c.route.members)) {
		for _, m := range c.doc.misfits(c.route.members[name]) {
			out = append(out, c.with(name+"="+m.value, changed(t, c.body(), name, m.value), invalid, name+m.path))
		}
	}
	for _, name := range c.route.numbers {
		for _, v := range []string{"abc", "1.5", "%223%22", "1e2", "true", "99999999999"} {
			a := c.with(name+"="+v, "", invalid, name)
			a.target += "?" + name + "=" + v
			out = append(out, a)
		}
	}
	return out
}

func (c asker) missing(t *testing.T) []attempt {
	t.Helper()
	var out []attempt
	for _, name := range slices.Sorted(maps.Keys(c.row.required)) {
		for how, value := range map[string]string{"absent": "", "null": "null"} {
			a := c.with(name+" "+how, changed(t, c.body(), name, value), c.row.required[name], "")
			if a.want.status == http.StatusBadRequest {
				a.path = name
			}
			out = append(out, a)
		}
	}
	return out
}

func (c asker) long(t *testing.T) []attempt {
	t.Helper()
	var out []attempt
	for _, param := range c.params() {
		w := invalidID
		if param == "{provider}" {
			w = want{http.StatusNotFound, "PROVIDER_UNKNOWN"}
		}
		for _, n := range []int{65, 100, 2000} {
			if param == "{provider}" && n > 100 {
				w = invalidID
			}
			a := c.with(param, c.body(), w, "")
			a.target = c.fill(param, strings.Repeat("a", n))
			out = append(out, a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.row.long)) {
		value := `"` + strings.Repeat("a", 201) + `"`
		if c.route.members[name].Type == "array" {
			value = "[" + value + "]"
		}
		out = append(out, c.with(name, changed(t, c.body(), name, value), c.row.long[name], ""))
	}
	return out
}

func (c asker) large(t *testing.T) []attempt {
	t.Helper()
	tooLarge := want{http.StatusBadRequest, "BODY_TOO_LARGE"}
	switch {
	case c.route.members != nil:
		return []attempt{c.with("64 KiB", changed(t, c.body(), "x", `"`+strings.Repeat("a", 64<<10)+`"`), tooLarge, "")}
	case c.row.body != nil: // a webhook's
		return []attempt{c.with("256 KiB", strings.Repeat("a", 256<<10+1), tooLarge, "")}
	default:
		return nil
	}
}

func (c asker) utf8(t *testing.T) []attempt {
	t.Helper()
	bad := want{http.StatusBadRequest, "INVALID_UTF8"}
	query := c.with("query", c.body(), bad, "")
	query.target += "?x=%ff"
	out := []attempt{query}
	if c.route.members != nil {
		out = append(out, c.with("body", strings.TrimSuffix(c.body(), "}")+",\"x\":\"\xff\"}", bad, ""))
		if c.body() == "{}" {
			out[1].body = "{\"x\":\"\xff\"}"
		}
	}
	for _, param := range c.params() {
		a := c.with(param, c.body(), bad, "")
		a.target = c.fill(param, "%ff")
		out = append(out, a)
	}
	return out
}

func (c asker) event() []attempt {
	if c.row.unknown.status == 0 {
		return nil
	}
	a := c.with("absent", c.body(), c.row.unknown, "")
	if slices.Contains(c.params(), "{eventId}") {
		a.target = c.fill("{eventId}", c.w.absent)
	} else {
		a.body = strings.Replace(a.body, c.w.calm, c.w.absent, 1)
	}
	return []attempt{a}
}

// tokens exchanges what the route asks for, one at a time, for one that has expired or that somebody else has signed.
func (c asker) tokens(expired bool) []attempt {
	secrets := c.w.p.Wiring().Secrets
	session, entry, tier1 := keySet(c.w.t, secrets.Session), keySet(c.w.t, secrets.EntryToken), keySet(c.w.t, secrets.VWRToken)
	at, end := time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	if !expired {
		session = keySet(c.w.t, uuid.NewString())
		entry, tier1, at, end = session, session, time.Now(), time.Now().Add(time.Hour)
	}
	signed := func(s string, err error) string {
		require.NoError(c.w.t, err)
		return s
	}
	who := c.right()
	badSession := who
	badSession.session = signed(session.Sign(claims.NewSession("operator", []string{"admin"}, at, end)))
	switch c.route.who {
	case "user", "admin":
		return []attempt{{name: "session", target: c.fill("", ""), body: c.body(), who: badSession, want: notSignedIn}}
	case "visitor":
		if expired || c.row.none[forgedToken] != "" {
			return nil
		}
		forged := who
		forged.anon = claims.NewAnon().Seal(session.Derive(claims.LabelAnon))
		return []attempt{{name: "visitor", target: c.fill("", ""), who: forged, want: want{http.StatusUnauthorized, "VISITOR_REQUIRED"}}}
	case "entry":
		badEntry, badPass := who, who
		badEntry.entry = signed(entry.Sign(claims.NewEntry(c.w.calm, who.user, "a-slot", 1, end, at)))
		badPass.entry = ""
		badPass.pass = signed(tier1.Sign(claims.NewTier1(c.w.busy, "a-visitor", c.w.request, c.w.round, 1, at)))
		out := []attempt{
			{name: "session", target: c.fill("", ""), body: c.body(), who: badSession, want: noEntry},
			{name: "entry", target: c.fill("", ""), body: c.body(), who: badEntry, want: noEntry},
		}
		room := attempt{name: "tier 1", target: c.fill("{eventId}", c.w.busy), body: strings.Replace(c.body(), c.w.calm, c.w.busy, 1), who: badPass,
			want: want{http.StatusForbidden, "VWR_TOKEN_REQUIRED"}}
		if room.target != out[0].target || room.body != out[0].body { // it names its event
			out = append(out, room)
		}
		return out
	default:
		return nil
	}
}

// stranger asks as somebody who may do as much, but with their own.
func (c asker) stranger() []attempt {
	switch {
	case c.route.who == "admin":
		return []attempt{{name: "no operator", target: c.fill("", ""), body: c.body(), who: c.w.other, want: notAdmin}}
	case c.row.stranger.status == 0:
		return nil
	}
	a := attempt{name: "another user", target: c.fill("", ""), body: c.body(), who: c.w.other, want: c.row.stranger}
	if c.row.stranger == noEntry { // with the owner's token
		a.who.entry = c.w.owner.entry
	}
	if c.route.who == "public" {
		a.who = person{}
	}
	return []attempt{a}
}
