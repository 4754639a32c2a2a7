package app_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/edge"

	eventsv1 "urr.guru/proto/gen/urr/events/v1"
)

const (
	typeActed = "OPERATOR_ACTED"
	typeEnded = "OPERATOR_ACT_ENDED"
)

// operatorActs lists the routes by which operators change something. It does not use Route.Audited.
func operatorActs(t *testing.T, w *fixture) []*edge.Route {
	t.Helper()
	var acts []*edge.Route
	for _, r := range w.gateway.Routes() {
		if strings.Contains(r.Pattern, "/admin/") {
			require.Equal(t, edge.Admin, r.Access, "%s", r)
		}
		if r.Access == edge.Admin && !slices.Contains([]string{http.MethodGet, http.MethodHead}, r.Method) {
			acts = append(acts, r)
		}
	}
	require.Greater(t, len(acts), 20)
	return acts
}

// outcomeOf waits for the record of an act's outcome.
func (w *fixture) outcomeOf(t *testing.T, act *eventsv1.AuditEvent) (outcome *eventsv1.AuditEvent) {
	t.Helper()
	testkit.Until(t, func() bool {
		for _, e := range w.acts.of(t, typeEnded) {
			if e.GetActId() == act.GetActId() {
				outcome = e
			}
		}
		return outcome != nil
	}, "the outcome of %s", act.GetPath())
	return outcome
}

// Every act of an operator is recorded before it reaches a service: who, what, when and from where.
func TestEveryActIsRecordedFirst(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, r := range operatorActs(t, w) {
		actsBefore, callsBefore := len(w.acts.of(t, typeActed)), len(w.serviceCalls())
		callsAtPublish := make(chan int, 10) // how many calls the services had got at each publication
		w.acts.before.Store(new(func() { callsAtPublish <- len(w.serviceCalls()) }))
		body := bodyFor(r, calm)
		rec := w.do(r.Method, target(r, calm), body, w.session(alice, "admin").with("X-Forwarded-For", "203.0.113.7"))
		require.Less(t, rec.Code, 300, "%s: %s", r, rec.Body)
		require.Equal(t, callsBefore, <-callsAtPublish, "%s: the record comes first", r)

		recorded := w.acts.of(t, typeActed)[actsBefore:]
		require.Len(t, recorded, 1, "%s", r)
		e := recorded[0]
		require.Equal(t, alice, e.GetUserId())
		require.Equal(t, "192.0.2.1", e.GetAddress(), "that of the peer: a header of anybody counts for nothing")
		require.Equal(t, r.Method, e.GetMethod())
		require.Equal(t, r.Pattern, e.GetRoute())
		require.Equal(t, target(r, calm), e.GetPath())
		require.Equal(t, rec.Header().Get("X-Request-Id"), e.GetRequestId())
		require.Equal(t, start, e.GetOccurredAt().AsTime())
		if !r.Body.JSON {
			body = "" // a list of users is not recorded
		}
		require.Equal(t, strings.NewReplacer("\n", "", "\t", "").Replace(body), e.GetBody())
		if strings.Contains(r.Pattern, "{event_id}") {
			require.Equal(t, calm, e.GetEventId())
		}
		outcome := w.outcomeOf(t, e)
		require.EqualValues(t, rec.Code, outcome.GetStatus(), "%s", r)
		require.Nil(t, outcome.Code)
		w.acts.before.Store(nil)
	}
}

// An operator's read of personal data is recorded, with the path, which contains whose data it is.
// Other reads by operators are not recorded.
func TestReadingPersonalDataIsAnAct(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session(alice, "admin")
	for _, path := range []string{
		"/api/v1/admin/audit?user=bob", "/api/v1/admin/rewards?memberId=bob", "/api/v1/admin/rewards/17", "/api/v1/admin/dlq/requests",
		"/api/v1/admin/promotions/" + calm + "/requests", "/api/v1/admin/promotions/" + calm + "/winners.csv",
		"/api/v1/admin/requests/0190163d-8694-739b-aea5-966c26f8ad91",
		"/api/v1/admin/events/" + calm + "/entitlements/l/versions/0190163d-8694-739b-aea5-966c26f8ad91/users.csv",
	} {
		actsBefore := len(w.acts.of(t, typeActed))
		w.do(http.MethodGet, path, "", admin)
		recorded := w.acts.of(t, typeActed)[actsBefore:]
		require.Len(t, recorded, 1, path)
		require.Equal(t, path, recorded[0].GetPath())
		require.Equal(t, alice, recorded[0].GetUserId())
	}
	actsBefore := len(w.acts.of(t, typeActed))
	w.do(http.MethodGet, "/api/v1/admin/rewards/events/"+calm+"/summary", "", admin)
	w.do(http.MethodGet, "/api/v1/admin/promotions/"+calm+"/summary", "", admin)
	require.Len(t, w.acts.of(t, typeActed), actsBefore, "figures are nobody's")
}

// brokenOff is a body whose client disconnects after its text.
type brokenOff struct{ io.Reader }

func (b brokenOff) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// The outcome of an upload has the digest of all bytes that were sent, also if the file was refused
// half way, and counts of what it has changed, so that two uploads can be told apart.
func TestDigestsOfUploads(t *testing.T) {
	t.Parallel()
	rest := strings.Repeat("somebody\n", 100_000)
	for name, c := range map[string]struct {
		event, file, hashed string
		broken              bool
		status              int
		entries             *eventsv1.EntryCounts
	}{
		"a list":       {event: calm, file: "userId\nalice\n", status: 200, entries: &eventsv1.EntryCounts{Total: 3, Added: 3}},
		"a longer one": {event: calm, file: "userId\n" + rest, status: 200, entries: &eventsv1.EntryCounts{Total: 3, Added: 3}},
		"bad lines":    {event: calm, file: "userId\n" + strings.Repeat("a b\n", 20) + rest, status: 400},
		"no header":    {event: calm, file: "name\n" + rest, status: 400},
		"no event":     {event: "absent", file: "userId\n" + rest, status: 404},
		"broken off":   {event: calm, file: "userId\nalice\nbo", broken: true, status: 400},
		"no file":      {event: calm, status: 400},
		"too long": {
			event: calm, file: "userId\n" + strings.Repeat("x", edge.MaxUpload), status: 400,
			hashed: "userId\n" + strings.Repeat("x", edge.MaxUpload-len("userId\n")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			req := w.request(http.MethodPut, "/api/v1/admin/events/"+c.event+"/entitlements/l", c.file, w.session(alice, "admin"))
			if c.broken {
				req.Body = io.NopCloser(brokenOff{req.Body})
			}
			rec := respond(w.gateway, req)
			require.Equal(t, c.status, rec.Code, rec.Body)
			act := w.acts.of(t, typeActed)[0]
			require.Empty(t, act.GetBodySha256())
			want := ""
			if hashed := cmp.Or(c.hashed, c.file); hashed != "" {
				sum := sha256.Sum256([]byte(hashed))
				want = hex.EncodeToString(sum[:])
			}
			outcome := w.outcomeOf(t, act)
			require.Equal(t, want, outcome.GetBodySha256())
			require.Empty(t, gocmp.Diff(c.entries, outcome.GetEntries(), protocmp.Transform()))
		})
	}
}

// Of an upload that was not forwarded nothing is read.
func TestDigestOfAnUploadWithoutKafka(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.acts.down.Store(true)
	rec := w.do(http.MethodPut, "/api/v1/admin/events/calm/entitlements/l", "userId\nalice\n", w.session(alice, "admin"))
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	w.acts.down.Store(false)
	testkit.Until(t, func() bool { return len(w.acts.of(t, typeEnded)) == 1 }, "the outcome")
	require.Empty(t, w.acts.of(t, typeEnded)[0].GetBodySha256())
}

// An act on a reward is recorded with the id of the reward's campaign.
func TestActsOnRewardsNameTheirCampaign(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodPost, "/api/v1/admin/rewards/17/retry", "", w.session(alice, "admin"))
	require.Less(t, rec.Code, 300, rec.Body)
	require.Equal(t, campaignOfRewards, w.outcomeOf(t, w.acts.of(t, typeActed)[0]).GetEventId())
}

// While Kafka is unavailable, an event's cancellation is served only if it can be undone. Any other
// cancellation is refused, since a pause is enough to stop the sale.
func TestCancellationWithoutKafka(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session(alice, "admin")
	w.acts.down.Store(true)
	for body, want := range map[string]int{
		"": http.StatusOK, `{}`: http.StatusOK, `{"graceSeconds":60}`: http.StatusOK,
		`{"graceSeconds":0}`: http.StatusServiceUnavailable, `{"graceSeconds":"0"}`: http.StatusServiceUnavailable,
		`{"grace_seconds":0}`: http.StatusServiceUnavailable,
	} {
		rec := w.do(http.MethodPost, "/api/v1/admin/events/calm/cancel", body, admin)
		require.Equal(t, want, rec.Code, "%s: %s", body, rec.Body)
	}
	require.Len(t, w.ticket.of("CancelEvent"), 3)
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/admin/events/calm/pause", "", admin).Code)
}

// While Kafka is unavailable, acts that stop a sale are served, and recorded later. All other acts
// are refused, and reach no service.
func TestActsWithoutKafka(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session(alice, "admin")
	w.acts.down.Store(true)
	var served []string
	for _, r := range operatorActs(t, w) {
		callsBefore := len(w.serviceCalls())
		rec := w.do(r.Method, target(r, calm), bodyFor(r, calm), admin)
		if r.ServedWithoutKafka {
			require.Less(t, rec.Code, 300, "%s: %s", r, rec.Body)
			require.Contains(t, w.logs.take(), "path="+target(r, calm), "the log has the act")
			served = append(served, r.Pattern)
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, rec.Code, "%s: %s", r, rec.Body)
		require.Equal(t, "AUDIT_UNAVAILABLE", problemOf(t, rec)["code"])
		require.Len(t, w.serviceCalls(), callsBefore, "%s must not be forwarded", r)
	}
	require.GreaterOrEqual(t, len(served), 5)
	require.Len(t, w.queue.of("SetThreshold"), 1)

	w.acts.down.Store(false)
	var arrived []string
	testkit.Until(t, func() bool {
		arrived = nil
		for _, e := range w.acts.of(t, typeActed) {
			arrived = append(arrived, e.GetRoute())
		}
		return len(arrived) == len(served)
	}, "the records of the acts that were served")
	require.ElementsMatch(t, served, arrived)
	for _, e := range w.acts.of(t, typeActed) {
		require.Less(t, w.outcomeOf(t, e).GetStatus(), int32(300))
	}
	for _, e := range w.acts.of(t, typeEnded) {
		require.Equal(t, !slices.Contains(served, e.GetRoute()), e.GetCode() == "AUDIT_UNAVAILABLE", "%s", e.GetRoute())
	}
}

// An act that its service refuses has an outcome that says so. A request that the gateway itself
// refuses is not recorded as an act.
func TestOutcomesOfRefusedActs(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodPut, "/api/v1/queue/admin/threshold/calm", `{}`, w.session(alice, "admin"))
	require.Equal(t, http.StatusBadRequest, rec.Code, "%s", rec.Body)
	outcome := w.outcomeOf(t, w.acts.of(t, typeActed)[0])
	require.EqualValues(t, http.StatusBadRequest, outcome.GetStatus())
	require.Equal(t, "INVALID_REQUEST", outcome.GetCode())
	require.Equal(t, "{}", outcome.GetBody())

	for _, r := range operatorActs(t, w) {
		for _, c := range []credentials{nil, w.session(alice), w.session(alice, "staff"), w.session(alice, "admin").with("Sec-Fetch-Site", "cross-site")} {
			require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, w.do(r.Method, target(r, calm), bodyFor(r, calm), c).Code)
		}
	}
	require.Len(t, w.acts.of(t, typeActed), 1)
}
