package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/app"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

func TestLine(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c, id := w.visitor()
	tok := w.entryToken(busy, alice)
	who := w.session(alice).with("Cookie", c["Cookie"]).with("Cookie", "urr-vwr-token="+w.tier1Token(busy, id)).
		with("X-Queue-Ticket", "place").with("X-Queue-Entry-Token", tok)
	rec := w.do(http.MethodPost, "/api/v1/queue/check/busy", "", who)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	require.Equal(t, "queued", jsonOf(t, rec)["status"])
	item, _ := w.queue.of("Check")[0].msg.(*queuev1.LineItem)
	require.Equal(t, "place", item.GetTicket())
	require.Equal(t, slot, item.GetEntry().GetSlotId())
	require.Equal(t, epoch, item.GetEntry().GetEpoch())
	require.Equal(t, alice, item.GetCaller().GetUserId())
	t1 := item.GetCaller().GetTier1()
	require.True(t, t1.GetRequired())
	require.Equal(t, int64(7), t1.GetPosition())
	require.Equal(t, round, t1.GetRound())
	require.Equal(t, requestID, t1.GetRequestId())

	// Another visitor's tier-1 token does not count. Without an active room no token is required.
	stranger := w.session(mallory).with("Cookie", "urr-vwr-token="+w.tier1Token(busy, id))
	w.do(http.MethodGet, "/api/v1/queue/status/busy", "", stranger)
	t1 = w.queue.of("Status")[0].caller.GetTier1()
	require.True(t, t1.GetRequired())
	require.Zero(t, t1.GetPosition())
	w.do(http.MethodGet, "/api/v1/queue/status/calm", "", stranger)
	require.Nil(t, w.queue.of("Status")[1].caller.GetTier1())
	status, _ := w.queue.of("Status")[1].msg.(*queuev1.LineItem)
	require.Nil(t, status.GetEntry(), "a token of another user is none")

	w.queue.place = func(*queuev1.LineItem) *queuev1.LineResult {
		return &queuev1.LineResult{Result: &queuev1.LineResult_Problem{Problem: errs.ToProblem(errs.ErrVWRTokenRequired)}}
	}
	rec = w.do(http.MethodPost, "/api/v1/queue/check/busy", "", w.session(mallory))
	require.Equal(t, http.StatusForbidden, rec.Code)
	require.Equal(t, "/vwr/busy", problemOf(t, rec)["redirectTo"])
}

func TestEntryTokenInBodyAndCookie(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	tok := w.entryToken(calm, alice)
	end := w.now().Add(10 * time.Minute).UnixMilli()
	w.queue.place = func(*queuev1.LineItem) *queuev1.LineResult {
		return &queuev1.LineResult{Result: &queuev1.LineResult_Place{Place: &queuev1.Place{
			Status: "active", EntryToken: &tok, ExpiresAt: &end, Threshold: 10,
		}}}
	}
	for _, c := range []struct{ method, path string }{
		{http.MethodPost, "/api/v1/queue/check/calm"}, {http.MethodGet, "/api/v1/queue/status/calm"}, {http.MethodPost, "/api/v1/queue/heartbeat/calm"},
	} {
		rec := w.do(c.method, c.path, "", w.session(alice))
		m := jsonOf(t, rec)
		require.Equal(t, tok, m["entryToken"], c.path)
		require.InDelta(t, float64(end), m["expiresAt"], 0)
		ck := cookieOf(rec, "urr-entry-token")
		require.Equal(t, tok, ck.Value)
		require.Equal(t, http.SameSiteStrictMode, ck.SameSite)
		require.True(t, ck.HttpOnly)
		require.Equal(t, 60, ck.MaxAge, "the token's life, not the slot's")
		if strings.Contains(c.path, "heartbeat") {
			require.Len(t, m, 3)
		}
	}

	rec := w.do(http.MethodPost, "/api/v1/queue/leave/calm", "", w.buyer(calm))
	require.Equal(t, http.StatusNoContent, rec.Code)
	require.Negative(t, cookieOf(rec, "urr-entry-token").MaxAge)
	leave, _ := w.queue.of("Leave")[0].msg.(*queuev1.LeaveRequest)
	require.Equal(t, slot, leave.GetEntry().GetSlotId())
	require.Equal(t, alice, leave.GetCaller().GetUserId())
	w.do(http.MethodPost, "/api/v1/queue/leave/calm", "", w.session(alice))
	leave, _ = w.queue.of("Leave")[1].msg.(*queuev1.LeaveRequest)
	require.Nil(t, leave.GetEntry())
}

// The queue service gets the e-mail address and claims for presales, except with heartbeats.
func TestLineGetsWhatEntitles(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	session := claims.NewSession(alice, nil, w.now(), w.now().Add(time.Hour))
	session.Person = claims.Person{Email: "a@example.com", Claims: []string{"tier=gold"}}
	who := credentials{"Authorization": "Bearer " + w.sign(w.sessions, session)}
	for _, c := range []struct {
		method, verb, call string
		person             claims.Person
	}{
		{http.MethodPost, "check", "Check", session.Person},
		{http.MethodGet, "status", "Status", session.Person},
		{http.MethodPost, "heartbeat", "Heartbeat", claims.Person{}},
	} {
		require.Equal(t, http.StatusOK, w.do(c.method, "/api/v1/queue/"+c.verb+"/calm", "", who).Code)
		sent := w.queue.of(c.call)[0].caller
		require.Equal(t, alice, sent.GetUserId())
		got := claims.Person{Email: sent.GetEmail(), Claims: sent.GetClaims()}
		require.Equal(t, c.person, got, c.verb)
	}
}

// A batched call has several visitors; an invalid ticket of one of them must not make it fail.
func TestInvalidTicketIsDropped(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for name, ticket := range map[string]string{
		"no UTF-8": "\xff\xfe", "no ASCII": "표", "a space": "a b", "too long": strings.Repeat("a", 257),
	} {
		for _, path := range []string{"/api/v1/queue/check/calm", "/api/v1/queue/heartbeat/calm"} {
			rec := w.do(http.MethodPost, path, "", w.session(mallory).with("X-Queue-Ticket", ticket))
			require.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, rec.Body)
		}
		rec := w.do(http.MethodGet, "/api/v1/queue/status/calm", "", w.session(mallory).with("X-Queue-Ticket", ticket))
		require.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, rec.Body)
	}
	for _, c := range w.queue.of("Status") {
		item, _ := c.msg.(*queuev1.LineItem)
		require.Empty(t, item.GetTicket())
	}
}

// TestSlotsAndEpochs checks when the gateway asks the queue service whether a slot is active.
func TestSlotsAndEpochs(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	reserve := func() *httptest.ResponseRecorder {
		return w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1"]}`, w.buyer(calm))
	}
	readSeats := func() *httptest.ResponseRecorder {
		return w.do(http.MethodGet, "/api/v1/seats/calm", "", w.buyer(calm))
	}

	require.Equal(t, http.StatusOK, readSeats().Code)
	require.Empty(t, w.queue.of("VerifySlots"), "reading does not ask queue")
	require.Equal(t, http.StatusCreated, reserve().Code)
	require.Len(t, w.queue.of("VerifySlots"), 1)

	w.queue.end(slot)
	rec := reserve()
	require.Equal(t, http.StatusForbidden, rec.Code)
	require.Equal(t, "SLOT_ENDED", problemOf(t, rec)["code"])
	require.Equal(t, "/queue/calm", problemOf(t, rec)["redirectTo"])
	require.Equal(t, http.StatusOK, readSeats().Code)

	// After a line was rebuilt, old tokens are accepted during the pause, and refused afterwards.
	const pause = 5 * time.Second
	w.line(calm, epoch+1, w.now().Add(pause).UnixMilli())
	require.Equal(t, http.StatusOK, readSeats().Code)
	w.clock.Advance(pause)
	rec = readSeats()
	require.Equal(t, http.StatusForbidden, rec.Code)
	require.Equal(t, "QUEUE_TOKEN_REQUIRED", problemOf(t, rec)["code"])

	// For an unknown line the queue service decides every call; while it is down nobody passes.
	unknown := w.session(alice).with("X-Queue-Entry-Token", w.entryToken("new-line", alice))
	rec = w.do(http.MethodGet, "/api/v1/seats/new-line", "", unknown)
	require.Equal(t, "SLOT_ENDED", problemOf(t, rec)["code"])
	w.queue.endedMu.Lock()
	w.queue.down = true
	w.queue.endedMu.Unlock()
	require.Equal(t, http.StatusServiceUnavailable, w.do(http.MethodGet, "/api/v1/seats/new-line", "", unknown).Code)
}

func TestVerifySlotsOff(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) { c.VerifySlots = false })
	rec := w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1"]}`, w.buyer(calm))
	require.Equal(t, http.StatusCreated, rec.Code)
	require.Empty(t, w.queue.of("VerifySlots"))
}

// The queue service gets the position of a visitor's tier-1 token, even after the room's end or if
// the gateway does not know its round, unless the gateway knows a later round.
func TestPositionIsPassedToTheLine(t *testing.T) {
	t.Parallel()
	type tier1 struct {
		required        bool
		round, position int64
	}
	ended := &vwrv1.Counter{EventId: calm, Round: round}
	for name, c := range map[string]struct {
		room  *vwrv1.Counter // nil: this gateway knows no room
		token func(w *fixture, visitor string) string
		want  tier1
	}{
		"the room is active":              {&vwrv1.Counter{EventId: calm, Active: true, Round: round}, calmToken, tier1{true, round, 7}},
		"the room has ended":              {ended, calmToken, tier1{false, round, 7}},
		"the room is not known":           {nil, calmToken, tier1{false, round, 7}},
		"the round is not known yet":      {&vwrv1.Counter{EventId: calm, Active: true, Round: round - 1}, calmToken, tier1{true, round, 7}},
		"an earlier round has ended":      {&vwrv1.Counter{EventId: calm, Round: round - 1}, calmToken, tier1{false, round, 7}},
		"a later round is active":         {&vwrv1.Counter{EventId: calm, Active: true, Round: round + 1}, calmToken, tier1{true, round + 1, 0}},
		"a later round has ended":         {&vwrv1.Counter{EventId: calm, Round: round + 1}, calmToken, tier1{}},
		"the token is of another event":   {ended, (*fixture).busyToken, tier1{}},
		"the token is another visitor's":  {ended, (*fixture).strangersToken, tier1{}},
		"the token has expired":           {ended, (*fixture).expiredToken, tier1{}},
		"the token is signed by no key":   {ended, (*fixture).forgedToken, tier1{}},
		"there is no token after the end": {ended, func(*fixture, string) string { return "" }, tier1{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			cookies, visitor := w.visitor()
			if c.room != nil {
				w.vwr.report(c.room, &vwrv1.Counter{EventId: "seen", Active: true, Round: 1})
				testkit.Until(t, func() bool {
					return strings.Contains(w.do(http.MethodGet, "/vwr-api/vwr/status/seen", "", nil).Body.String(), `"isActive":true`)
				}, "the change")
			}
			who := w.session(alice).with("Cookie", cookies["Cookie"]).with("Cookie", "urr-vwr-token="+c.token(w, visitor))
			require.Equal(t, http.StatusOK, w.do(http.MethodPost, "/api/v1/queue/check/calm", "", who).Code)
			got := w.queue.of("Check")[0].caller.GetTier1()
			require.Equal(t, c.want, tier1{got.GetRequired(), got.GetRound(), got.GetPosition()})
		})
	}
}

func calmToken(w *fixture, visitor string) string { return w.tier1Token(calm, visitor) }

func (w *fixture) busyToken(visitor string) string { return w.tier1Token(busy, visitor) }

func (w *fixture) strangersToken(string) string { return w.tier1Token(calm, "somebody else") }

func (w *fixture) expiredToken(visitor string) string {
	return w.sign(w.tier1, claims.NewTier1(calm, visitor, requestID, round, 7, w.now().Add(-time.Hour)))
}

func (w *fixture) forgedToken(visitor string) string {
	tok := w.tier1Token(calm, visitor)
	return tok[:len(tok)-4] + "AAAA"
}
