package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/proofofwork"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/app"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// askForWork makes the vwr service report that event busy requires a proof of work of so many bits.
func (w *fixture) askForWork(bits int64) {
	w.t.Helper()
	serving := w.gateway.Rooms.Get(busy).Serving + 1 // shows that the report has arrived
	w.vwr.report(&vwrv1.Counter{EventId: busy, Active: true, Round: round, Serving: serving, Issued: 5000, ProofOfWork: bits})
	testkit.Until(w.t, func() bool { return w.gateway.Rooms.Get(busy).Serving == serving }, "the report of vwr")
}

func (w *fixture) assign(c credentials) *httptest.ResponseRecorder {
	return w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", c)
}

// challenge asks for a challenge, and returns it with its difficulty.
func (w *fixture) challenge(c credentials) (string, int) {
	w.t.Helper()
	rec := w.do(http.MethodGet, "/vwr-api/vwr/challenge/busy", "", c)
	require.Equal(w.t, http.StatusOK, rec.Code, "%s", rec.Body)
	m := jsonOf(w.t, rec)
	challenge, _ := m["challenge"].(string)
	difficulty, _ := m["difficulty"].(float64)
	return challenge, int(difficulty)
}

// withProof gets a challenge, solves it, and adds the proof to the visitor's credentials.
func (w *fixture) withProof(c credentials) credentials {
	w.t.Helper()
	challenge, difficulty := w.challenge(c)
	sent, err := proofofwork.Solve(w.t.Context(), challenge, difficulty)
	require.NoError(w.t, err)
	return c.with("X-Vwr-Proof", sent)
}

func requireProof(t *testing.T, rec *httptest.ResponseRecorder, what string) {
	t.Helper()
	require.Equal(t, http.StatusForbidden, rec.Code, what)
	m := problemOf(t, rec)
	require.Equal(t, "PROOF_REQUIRED", m["code"], what)
	require.Equal(t, "/vwr-api/vwr/challenge/busy", m["challengeUrl"], what)
}

func TestEventAsksForWork(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	_, difficulty := w.challenge(c)
	require.Zero(t, difficulty, "an event that asks for none")
	w.askForWork(6)
	requireProof(t, w.assign(c), "without a proof")
	requireProof(t, w.assign(c.with("X-Vwr-Proof", "a.b")), "with what is none")
	require.Empty(t, w.vwr.of("Assign"), "vwr is not asked")

	proven := w.withProof(c)
	other, _ := w.visitor()
	requireProof(t, w.assign(other.with("X-Vwr-Proof", proven["X-Vwr-Proof"])), "with another visitor's proof")
	require.Equal(t, http.StatusOK, w.assign(proven).Code)
	require.Equal(t, id, w.vwr.of("Assign")[0].caller.GetAnonId())
	require.Equal(t, http.StatusOK, w.assign(proven).Code, "a repeated request gets the same answer")
	require.Equal(t, http.StatusOK, w.assign(c).Code, "also without the proof")

	// A visitor with the ticket of a position in this round needs no proof.
	require.Equal(t, http.StatusOK, w.assign(other.with("X-Vwr-Ticket", w.ticketFor(busy, visitorOf(t, w, other), round, 9))).Code)
	requireProof(t, w.assign(other.with("X-Vwr-Ticket", w.ticketFor(busy, visitorOf(t, w, other), round-1, 9))), "of another round")

	w.askForWork(0)
	require.Equal(t, http.StatusOK, w.assign(other).Code, "an operator does")
}

// visitorOf returns the id in the visitor's cookie, as the vwr service gets it.
func visitorOf(t *testing.T, w *fixture, c credentials) string {
	t.Helper()
	n := len(w.vwr.of("Check"))
	w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c)
	return w.vwr.of("Check")[n].caller.GetAnonId()
}

// The response with a challenge sets the visitor's cookie, and caches must not keep it. Where
// nobody gets a position, no challenge is issued.
func TestChallenge(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.askForWork(4)
	rec := w.do(http.MethodGet, "/vwr-api/vwr/challenge/busy", "", nil)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	m := jsonOf(t, rec)
	require.InDelta(t, 4, m["difficulty"], 0)
	require.InDelta(t, start.Add(5*time.Minute).UnixMilli(), m["expiresAt"], 0)
	anon := cookieOf(rec, "urr-anon")
	require.NotNil(t, anon)
	challenge, _ := m["challenge"].(string)
	sent, err := proofofwork.Solve(t.Context(), challenge, 4)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.assign(credentials{"Cookie": "urr-anon=" + anon.Value, "X-Vwr-Proof": sent}).Code)

	require.Equal(t, "VWR_INACTIVE", problemOf(t, w.do(http.MethodGet, "/vwr-api/vwr/challenge/calm", "", nil))["code"])
	require.Equal(t, "LOBBY_OPEN", problemOf(t, w.do(http.MethodGet, "/vwr-api/vwr/challenge/"+lobbied, "", nil))["code"])
	require.Equal(t, http.StatusBadRequest, w.do(http.MethodGet, "/vwr-api/vwr/challenge/"+strings.Repeat("a", 65), "", nil).Code)
}

// Each new visitor of a network beyond FreeVisitorBurst owes a proof of work, even if the id later
// comes from another address. Visitors who came before owe nothing.
func TestExcessOfNewVisitors(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) {
		c.Limits.FreeVisitorRate, c.Limits.FreeVisitorBurst = 0.1, 2
		c.Limits.ProofMinBits, c.Limits.ProofMaxBits = 4, 6
		c.Limits.NewVisitorRate, c.Limits.NewVisitorBurst = 0.1, 20
		c.TrustedProxies = []string{"192.0.2.1"} // the address of httptest's requests
	})
	from := func(address string) credentials { return credentials{"X-Forwarded-For": address} }
	visitor := func(rec *httptest.ResponseRecorder, address string) credentials {
		anon := cookieOf(rec, "urr-anon")
		require.NotNil(t, anon)
		return from(address).with("Cookie", "urr-anon="+anon.Value)
	}
	const crowded, quiet = "198.51.100.1", "198.51.100.2"
	first := w.assign(from(crowded))
	require.Equal(t, http.StatusOK, first.Code)
	require.Equal(t, http.StatusOK, w.assign(from(crowded)).Code)
	refused := w.assign(from(crowded))
	requireProof(t, refused, "the third")
	require.Equal(t, http.StatusOK, w.assign(visitor(first, crowded)).Code, "the first")

	third := visitor(refused, crowded)
	requireProof(t, w.assign(third), "the third with the id that was issued")
	requireProof(t, w.assign(visitor(refused, quiet)), "from another address")
	require.Equal(t, http.StatusOK, w.assign(from(quiet)).Code, "others there")
	_, difficulty := w.challenge(third)
	require.Equal(t, 4, difficulty)
	require.Equal(t, http.StatusOK, w.assign(w.withProof(third)).Code)

	// The first 3 visitors who owe work owe 4 bits, from the 4th on 5 bits, from the 8th on 6.
	owed := func() int {
		_, difficulty := w.challenge(from(crowded))
		return difficulty
	}
	for _, want := range []int{4, 4, 5, 5, 5, 5, 6, 6, 6} {
		require.Equal(t, want, owed())
	}
	w.clock.Advance(time.Hour)
	require.Zero(t, owed())
}
