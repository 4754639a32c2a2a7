package app_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// openLobby gives event busy an open lobby before a start in an hour, and returns the start.
func (w *fixture) openLobby() time.Time {
	starts := w.now().Add(time.Hour)
	w.sendLobby(&vwrv1.Lobby{OpensAt: 1, ClosesAt: starts.Add(-3 * time.Minute).UnixMilli(), StartsAt: starts.UnixMilli()})
	return starts
}

// sendLobby sends a lobby to the gateway as the vwr service does, and waits until it has arrived.
func (w *fixture) sendLobby(l *vwrv1.Lobby) {
	w.t.Helper()
	w.vwr.report(&vwrv1.Counter{EventId: busy, Active: true, Round: lobbyRound, OpenedAt: l.GetStartsAt(), Lobby: l})
	testkit.Until(w.t, func() bool {
		got := w.gateway.Rooms.Get(busy).Lobby
		return got.StartsAt == l.GetStartsAt() && got.Shuffled == l.GetShuffled() && got.Sized == l.GetSized()
	}, "the lobby at the gateway")
}

const lobbyRound = round + 1

// Before the start, assign is answered from memory. Until the shuffle, so is check.
func TestLobbyFromMemory(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	starts := w.openLobby()
	rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil)
	require.Equal(t, http.StatusConflict, rec.Code)
	m := problemOf(t, rec)
	require.Equal(t, "LOBBY_OPEN", m["code"])
	require.Equal(t, strconv.FormatInt(starts.UnixMilli(), 10), m["opensAt"])
	require.NotEmpty(t, m["closesAt"])

	visitor, _ := w.visitor()
	visitor = visitor.with("X-Vwr-Ticket", w.ticketFor(busy, claims.UserPrefix+"alice", lobbyRound, 0))
	check := func() map[string]any {
		c := visitor.with("Authorization", w.session("alice")["Authorization"]) // a new session, since sessions expire
		return jsonOf(t, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c))
	}
	m = check()
	require.Equal(t, "LOBBY", m["phase"])
	require.Equal(t, false, m["admitted"])
	require.InDelta(t, starts.UnixMilli(), m["opensAt"], 0)
	require.InDelta(t, 30, m["nextPoll"], 3)

	// Between start and shuffle, new visitors get positions, while users of the lobby still wait.
	w.clock.Set(starts)
	l := &vwrv1.Lobby{OpensAt: 1, ClosesAt: 2, StartsAt: starts.UnixMilli(), Sized: true}
	w.sendLobby(l)
	require.Equal(t, "LOBBY", check()["phase"])
	require.Empty(t, w.vwr.methods(), "no call of vwr so far")
	require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil).Code)

	l.Shuffled = true
	w.sendLobby(l)
	require.NotContains(t, check(), "phase")
	require.Len(t, w.vwr.of("Check"), 1, "vwr knows the position")
	require.Equal(t, "alice", w.vwr.of("Check")[0].caller.GetUserId())

	// A tier-1 token of the user gives access to the event.
	token := w.sign(w.tier1, claims.NewTier1(busy, claims.UserPrefix+"alice", requestID, lobbyRound, 1, w.now()))
	alice := w.session("alice").with("Cookie", "urr-vwr-token="+token)
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/events/busy", "", alice).Code)
	bob := w.session("bob").with("Cookie", "urr-vwr-token="+token)
	require.NotEqual(t, http.StatusOK, w.do(http.MethodGet, "/events/busy", "", bob).Code)
}

// A user of the lobby whose session has ended must sign in: the entry does not count as unknown.
func TestEntryOfWhoIsSignedOut(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.openLobby()
	w.vwr.checkResult = func(*vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Problem{Problem: errs.ToProblem(errs.ErrUnauthenticated)}}
	}
	visitor, _ := w.visitor()
	visitor = visitor.with("X-Vwr-Ticket", w.ticketFor(busy, claims.UserPrefix+"alice", lobbyRound, 0))
	rec := w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", visitor)
	require.Equal(t, http.StatusUnauthorized, rec.Code)
	require.Equal(t, "UNAUTHENTICATED", problemOf(t, rec)["code"])
	require.Empty(t, w.vwr.of("Check")[0].caller.GetUserId())
}

func TestJoin(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const path = "/vwr-api/vwr/lobby/busy"
	require.Equal(t, "LOBBY_CLOSED", problemOf(t, w.do(http.MethodPost, path, "{}", w.session("alice")))["code"], "a room without a lobby")
	w.openLobby()
	require.Equal(t, http.StatusUnauthorized, w.do(http.MethodPost, path, "{}", nil).Code)
	rec := w.do(http.MethodPost, path, "{}", w.session("alice"))
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, requestID, jsonOf(t, rec)["requestId"])
	require.NotNil(t, cookieOf(rec, "urr-anon"), "check needs it")
	require.Equal(t, "alice", w.vwr.of("Join")[0].caller.GetUserId())
	require.Equal(t, "VWR_INACTIVE", problemOf(t, w.do(http.MethodPost, "/vwr-api/vwr/lobby/calm", "{}", w.session("alice")))["code"])
}

// The gateway joins the parts of the file of entries, also for a range request.
func TestShuffle(t *testing.T) {
	t.Parallel()
	w, start := newFixture(t), time.Now()
	rec := w.do(http.MethodGet, "/vwr-api/vwr/shuffle/busy", "", nil)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "ROOT", jsonOf(t, rec)["phase"])
	rec = w.do(http.MethodGet, "/vwr-api/vwr/shuffle/busy", "", credentials{"If-None-Match": rec.Header().Get("Etag")})
	require.Equal(t, http.StatusNotModified, rec.Code)

	rec = w.do(http.MethodGet, "/vwr-api/vwr/shuffle/busy/entries", "", nil)
	require.Equal(t, lobbyEntries, rec.Body.String())
	require.Equal(t, `"root"`, rec.Header().Get("Etag"))
	require.Equal(t, "application/octet-stream", rec.Header().Get("Content-Type"))
	rec = w.do(http.MethodGet, "/vwr-api/vwr/shuffle/busy/entries", "", credentials{"Range": "bytes=10-40"})
	require.Equal(t, http.StatusPartialContent, rec.Code)
	require.Equal(t, lobbyEntries[10:41], rec.Body.String())
	rec = w.do(http.MethodGet, "/vwr-api/vwr/shuffle/busy/entries", "", credentials{"Range": "bytes=900-"})
	require.Equal(t, "RANGE_NOT_SATISFIABLE", problemOf(t, rec)["code"])

	rec = w.do(http.MethodGet, "/vwr-api/vwr/shuffle/busy/proof/"+uuid.NewString(), "", nil)
	require.InDelta(t, 3, jsonOf(t, rec)["rank"], 0)
	for range 3 { // with only one call of the vwr service
		rec = w.do(http.MethodGet, "/vwr-api/vwr/shuffle/calm", "", nil)
		require.Equal(t, http.StatusNotFound, rec.Code)
		require.Equal(t, "LOBBY_NOT_FOUND", problemOf(t, rec)["code"])
		for _, path := range []string{"/entries", "/proof/" + uuid.NewString()} {
			require.Equal(t, "LOBBY_NOT_FOUND", problemOf(t, w.do(http.MethodGet, "/vwr-api/vwr/shuffle/calm"+path, "", nil))["code"])
		}
	}
	calls := len(w.vwr.of("GetShuffle"))
	require.GreaterOrEqual(t, calls, 2)
	require.LessOrEqual(t, calls, 2+2*int(time.Since(start)/time.Second), "each of the two is cached for a second at least")
}

// HEAD, conditional and range requests read no more entries from the vwr service than they need.
func TestShuffleEntriesReadNoMoreThanAsked(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const path = "/vwr-api/vwr/shuffle/busy/entries"
	requestedSizes := func(method string, c credentials) (sizes []int64, status int) {
		before := len(w.vwr.of("GetShuffleEntries"))
		status = w.do(method, path, "", c).Code
		for _, c := range w.vwr.of("GetShuffleEntries")[before:] {
			in, _ := c.msg.(*vwrv1.GetShuffleEntriesRequest)
			sizes = append(sizes, in.GetSize())
		}
		return sizes, status
	}
	for _, c := range []struct {
		method string
		header credentials
		status int
		sizes  []int64
	}{
		{http.MethodHead, nil, http.StatusOK, []int64{1}},
		{http.MethodGet, credentials{"If-None-Match": `"root"`}, http.StatusNotModified, []int64{1}},
		{http.MethodGet, credentials{"Range": "bytes=900-"}, http.StatusRequestedRangeNotSatisfiable, []int64{1}},
		{http.MethodGet, credentials{"Range": "bytes=0-0"}, http.StatusPartialContent, []int64{1}},
		{http.MethodGet, credentials{"Range": "bytes=20-24"}, http.StatusPartialContent, []int64{1, 5}},
	} {
		sizes, status := requestedSizes(c.method, c.header)
		require.Equal(t, c.status, status, "%v", c)
		require.Equal(t, c.sizes, sizes, "%v", c)
	}
	for range 2 {
		require.Equal(t, http.StatusNotFound, w.do(http.MethodHead, "/vwr-api/vwr/shuffle/calm/entries", "", nil).Code)
	}
	sizes, _ := requestedSizes(http.MethodHead, nil)
	require.Equal(t, []int64{1}, sizes)
	require.Len(t, w.vwr.of("GetShuffleEntries"), 8, "the missing lobby was asked for once")
}

// Each round of an event has its own document, file of entries and proofs.
func TestShufflesOfFormerRounds(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	get := func(path string) *httptest.ResponseRecorder {
		return w.do(http.MethodGet, "/vwr-api/vwr/shuffle/busy"+path, "", nil)
	}
	list := jsonOf(t, get("/rounds"))
	require.Equal(t, "2", list["nextCursor"])
	require.Len(t, list["shuffles"], 1)
	require.Equal(t, "VOID", jsonOf(t, get("/rounds?cursor=2"))["shuffles"].([]any)[0].(map[string]any)["phase"])

	require.Equal(t, "ROOT", jsonOf(t, get(""))["phase"])
	require.Equal(t, "VOID", jsonOf(t, get("/rounds/1"))["phase"], "it is not confused with the latest one")
	require.Equal(t, "ROOT", jsonOf(t, get(""))["phase"])
	require.Equal(t, lobbyEntries, get("/rounds/1/entries").Body.String())
	require.InDelta(t, 1, jsonOf(t, get("/rounds/1/proof/"+uuid.NewString()))["round"], 0)
	for _, malformed := range []string{"/rounds/0", "/rounds/x/entries", "/rounds/-1/proof/" + uuid.NewString()} {
		require.Equal(t, "LOBBY_NOT_FOUND", problemOf(t, get(malformed))["code"], malformed)
	}
}

// lobbyEntries is the file of entries of the fake vwr service, which sends it in parts of 16 bytes.
var lobbyEntries = strings.Repeat("0123456789abcdef", 4)
