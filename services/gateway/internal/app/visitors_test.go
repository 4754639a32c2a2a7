package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/app"
)

// crowdedFixture returns a gateway where two new visitors of a network owe no proof of work.
func crowdedFixture(t *testing.T, newVisitors int) *fixture {
	t.Helper()
	return newFixture(t, func(c *app.Config, _ *app.Services) {
		c.Limits.FreeVisitorRate, c.Limits.FreeVisitorBurst = 0.1, 2
		c.Limits.ProofMinBits, c.Limits.ProofMaxBits = 4, 6
		c.Limits.NewVisitorRate, c.Limits.NewVisitorBurst = 0.1, newVisitors
	})
}

// returning returns the visitor's cookie after a response: the new one, or c if it sets none.
func returning(c credentials, rec *httptest.ResponseRecorder) credentials {
	if anon := cookieOf(rec, "urr-anon"); anon != nil {
		return credentials{"Cookie": "urr-anon=" + anon.Value}
	}
	return c
}

// Only ids that were issued add to the work that later visitors of the network owe. Refused calls
// do not.
func TestRefusedCallsCostNobodyWork(t *testing.T) {
	t.Parallel()
	w := crowdedFixture(t, 3)
	var waiting credentials
	for range 30 {
		require.Equal(t, http.StatusUnauthorized, w.do(http.MethodPost, "/vwr-api/vwr/lobby/busy", "{}", nil).Code)
		require.Equal(t, http.StatusNotFound, w.assignAt(calm, nil).Code)
		rec := w.assignAt(lobbied, waiting) // gives the first id, which decides when it may ask
		require.Equal(t, http.StatusConflict, rec.Code)
		waiting = returning(waiting, rec)
		require.Equal(t, http.StatusBadRequest, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "{", nil).Code)
	}
	require.Equal(t, http.StatusOK, w.assign(nil).Code)
	requireProof(t, w.assign(nil), "the third id")
	for range 30 {
		require.Equal(t, http.StatusTooManyRequests, w.assign(nil).Code)
	}
	w.clock.Advance(10 * time.Second)
	_, difficulty := w.challenge(nil)
	require.Equal(t, 4, difficulty, "the fourth id")
}

func (w *fixture) assignAt(event string, c credentials) *httptest.ResponseRecorder {
	return w.do(http.MethodPost, "/vwr-api/vwr/assign/"+event, "", c)
}

// Ids that were collected before a sale have no advantage over new ones. Each counts as a new
// visitor of the network that uses it, unless it comes with the ticket of a position.
func TestCollectedIDsCountAsNewVisitors(t *testing.T) {
	t.Parallel()
	w := crowdedFixture(t, 20)
	type visitor struct {
		c  credentials
		id string
	}
	all := make([]visitor, 6)
	for i := range all {
		all[i].c, all[i].id = w.visitor()
	}
	w.clock.Advance(20 * time.Minute)
	for _, v := range all[:2] {
		require.Equal(t, http.StatusOK, w.assign(v.c).Code)
	}
	for _, v := range all[2:5] {
		requireProof(t, w.assign(v.c), "a collected id")
	}
	last := all[5]
	require.Equal(t, http.StatusOK, w.assign(last.c.with("X-Vwr-Ticket", w.ticketFor(busy, last.id, round, 9))).Code, "with a position")
	requireProof(t, w.assign(last.c.with("X-Vwr-Ticket", w.ticketFor(busy, last.id, round-1, 9))), "with a position of an earlier round")

	// The visitor keeps the id, is counted once, and owes nothing more after some minutes.
	rec := w.assign(all[4].c)
	requireProof(t, rec, "again")
	counted := returning(all[4].c, rec)
	require.Equal(t, http.StatusOK, w.assign(w.withProof(counted)).Code)
	assigned := w.vwr.of("Assign")
	require.Equal(t, all[4].id, assigned[len(assigned)-1].caller.GetAnonId())
	w.clock.Advance(20 * time.Minute)
	require.Equal(t, http.StatusOK, w.assign(counted).Code)
}

// An id gets new positions for a day. Then the visitor gets another id, and keeps the positions and
// tokens of the former one.
func TestIDsExpireForNewPositions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	assignedTo := func(rec *httptest.ResponseRecorder) string {
		t.Helper()
		require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
		all := w.vwr.of("Assign")
		return all[len(all)-1].caller.GetAnonId()
	}
	w.clock.Advance(23 * time.Hour)
	rec := w.assign(c)
	require.Equal(t, id, assignedTo(rec), "within a day")
	c = returning(c, rec)

	w.clock.Advance(2 * time.Hour)
	withPosition := credentials{"X-Vwr-Ticket": w.ticketFor(busy, id, round, 1100)}
	require.Equal(t, id, assignedTo(w.assign(withPosition.with("Cookie", c["Cookie"]))), "with its position")
	rec = w.assign(c)
	next := assignedTo(rec)
	require.NotEqual(t, id, next, "after a day")
	c = returning(c, rec)
	require.Equal(t, next, assignedTo(w.assign(c)), "repeated")

	// The position and the token of the former id are still accepted, and those of the new id too.
	check := func(c credentials) *httptest.ResponseRecorder {
		return w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c)
	}
	for _, owner := range []string{id, next} {
		waiting := jsonOf(t, check(c.with("X-Vwr-Ticket", w.ticketFor(busy, owner, round, 1100))))
		require.InDelta(t, 1000, waiting["ahead"], 0)
		require.Equal(t, http.StatusOK, check(c.with("X-Vwr-Ticket", w.ticketFor(busy, owner, round, 50))).Code)
		checks := w.vwr.of("Check")
		require.Equal(t, owner, checks[len(checks)-1].caller.GetAnonId())
		pass := c.with("Cookie", "urr-vwr-token="+w.tier1Token(busy, owner))
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/events/busy", "", pass).Code)
	}
	other := c.with("Cookie", "urr-vwr-token="+w.tier1Token(busy, requestID))
	require.NotEqual(t, http.StatusOK, w.do(http.MethodGet, "/events/busy", "", other).Code)
}

// A browser that keeps no cookies gets an error, before it solves one challenge after the other.
func TestProofWithoutACookie(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.askForWork(4)
	rec := w.assign(w.withProof(nil))
	require.Equal(t, http.StatusUnauthorized, rec.Code)
	require.Equal(t, "VISITOR_REQUIRED", problemOf(t, rec)["code"])
	require.Nil(t, cookieOf(rec, "urr-anon"))
	require.Empty(t, w.vwr.of("Assign"))
}
