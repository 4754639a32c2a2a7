package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/app"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

func cookieOf(rec *httptest.ResponseRecorder, name string) *http.Cookie {
	for _, c := range rec.Result().Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func jsonOf(t testing.TB, rec *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"), "%d %s", rec.Code, rec.Body)
	var m map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &m))
	return m
}

func (w *world) ticketFor(event, visitor string, round, position int64) string {
	return claims.VwrTicket{Round: round, RequestID: uuidOf(w.t, requestID), Position: position}.
		Seal(w.tier1.Derive(claims.LabelVwrTicket), event, visitor)
}

func TestAssign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil)
	require.Equal(t, http.StatusOK, rec.Code)
	require.InDelta(t, 7, jsonOf(t, rec)["position"], 0)
	anon := cookieOf(rec, "urr-anon")
	require.NotNil(t, anon)
	require.True(t, anon.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, anon.SameSite)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	id := w.vwr.of("Assign")[0].caller.GetAnonId()
	require.NotEmpty(t, id)

	// The same visitor is the same to vwr, and gets no other cookie.
	rec = w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "{}", credentials{"Cookie": "urr-anon=" + anon.Value})
	require.Nil(t, cookieOf(rec, "urr-anon"))
	require.Equal(t, id, w.vwr.of("Assign")[1].caller.GetAnonId())

	// A forged cookie is no visitor: a new one is made.
	rec = w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "{}", credentials{"Cookie": "urr-anon=" + anon.Value[:len(anon.Value)-3] + "AAA"})
	require.NotNil(t, cookieOf(rec, "urr-anon"))
	require.NotEqual(t, id, w.vwr.of("Assign")[2].caller.GetAnonId())

	rec = w.do(http.MethodPost, "/vwr-api/vwr/assign/calm", "", nil)
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "VWR_INACTIVE", problemOf(t, rec)["code"])
	require.Len(t, w.vwr.of("Assign"), 3)
}

func TestCheckFromMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, id := w.visitor()
	const path = "/vwr-api/vwr/check/busy/" + requestID
	rec := w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 1100)))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	m := jsonOf(t, rec)
	require.Equal(t, false, m["admitted"])
	require.InDelta(t, 1100, m["position"], 0)
	require.InDelta(t, 100, m["servingCounter"], 0)
	require.InDelta(t, 1000, m["ahead"], 0)
	require.InDelta(t, 20, m["estimatedWait"], 0) // 1,000 at the measured 50/s
	require.InDelta(t, 5, m["nextPoll"], 1)
	require.Empty(t, w.vwr.of("Check"), "who waits costs no call")

	// One of an earlier round jumps no line.
	rec = w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round-1, 1)))
	require.Equal(t, "VWR_REQUEST_UNKNOWN", problemOf(t, rec)["code"])
	require.Empty(t, w.vwr.of("Check"))

	require.Equal(t, "VISITOR_REQUIRED", problemOf(t, w.do(http.MethodGet, path, "", nil))["code"])
}

func TestCheckAsksVWR(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, id := w.visitor()
	_, other := w.visitor()
	w.vwr.checked = func(i *vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Checked{Checked: &vwrv1.Checked{
			Admitted: true, Position: 42, Token: proto.String("tok"), ExpiresAt: proto.Int64(time.Now().Add(600 * time.Second).Unix()),
		}}}
	}
	const path = "/vwr-api/vwr/check/busy/" + requestID
	served := w.ticketFor(busy, id, round, 42)
	rec := w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", served))
	require.Equal(t, "tok", jsonOf(t, rec)["token"])
	ck := cookieOf(rec, "urr-vwr-token")
	require.NotNil(t, ck)
	require.Equal(t, "tok", ck.Value)
	require.InDelta(t, 599, ck.MaxAge, 2)
	require.True(t, ck.HttpOnly)
	item, _ := w.vwr.of("Check")[0].msg.(*vwrv1.CheckItem)
	require.Equal(t, served, item.GetTicket())
	require.Equal(t, id, item.GetCaller().GetAnonId())

	// What does not verify for this visitor, event and request is not passed on as a ticket; the record decides.
	for name, ticket := range map[string]string{
		"none": "", "another visitor's": w.ticketFor(busy, other, round, 42), "another event's": w.ticketFor(calm, id, round, 42),
		"garbage": "AAAA", "cut": served[:len(served)-1],
	} {
		before := len(w.vwr.of("Check"))
		w.do(http.MethodGet, path, "", c.with("X-Vwr-Ticket", ticket))
		item, _ := w.vwr.of("Check")[before].msg.(*vwrv1.CheckItem)
		require.Empty(t, item.GetTicket(), name)
	}

	w.vwr.checked = func(*vwrv1.CheckItem) *vwrv1.CheckResult {
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Problem{Problem: errs.ToProblem(errs.ErrVWRRequestUnknown)}}
	}
	rec = w.do(http.MethodGet, path, "", c)
	require.Equal(t, http.StatusNotFound, rec.Code)
}

func TestServingAndStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil)
	require.JSONEq(t, `{"servingCounter":100,"isActive":true}`, rec.Body.String())
	require.Contains(t, rec.Header().Get("Cache-Control"), "s-maxage=1")
	require.Empty(t, rec.Header().Values("Set-Cookie"))
	etag := rec.Header().Get("ETag")
	require.NotEmpty(t, etag)
	rec = w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", credentials{"If-None-Match": etag})
	require.Equal(t, http.StatusNotModified, rec.Code)

	w.vwr.changes <- &vwrv1.WatchCountersResponse{Counters: []*vwrv1.Counter{{EventId: busy, Active: true, Round: round, Serving: 150, Issued: 5100}}}
	require.Eventually(t, func() bool {
		return w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", credentials{"If-None-Match": etag}).Code == http.StatusOK
	}, 5*time.Second, time.Millisecond)
	rec = w.do(http.MethodGet, "/vwr-api/vwr/status/busy", "", nil)
	require.JSONEq(t, `{"eventId":"busy","isActive":true,"totalInQueue":5100,"serving":150,"waitingCount":4950}`, rec.Body.String())
	rec = w.do(http.MethodGet, "/vwr-api/vwr/status/unheard-of", "", nil)
	require.JSONEq(t, `{"eventId":"unheard-of","isActive":false,"totalInQueue":0,"serving":0,"waitingCount":0}`, rec.Body.String())
}

func TestWithoutTier1(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutTier1)
	require.Equal(t, "VWR_INACTIVE", problemOf(t, w.do(http.MethodPost, "/vwr-api/vwr/assign/busy", "", nil))["code"])
	c, _ := w.visitor()
	require.Equal(t, "VWR_INACTIVE", problemOf(t, w.do(http.MethodGet, "/vwr-api/vwr/check/busy/"+requestID, "", c))["code"])
	require.JSONEq(t, `{"servingCounter":0,"isActive":false}`, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil).Body.String())
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/seats/busy", "", w.buyer(busy)).Code)
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, "/api/v1/admin/vwr/status/busy", "", w.session(alice, "admin")).Code)
}

func TestLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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

	// Another visitor's pass counts for nothing; where no room is active nothing is required.
	theirs := w.session(mallory).with("Cookie", "urr-vwr-token="+w.tier1Token(busy, id))
	w.do(http.MethodGet, "/api/v1/queue/status/busy", "", theirs)
	t1 = w.queue.of("Status")[0].caller.GetTier1()
	require.True(t, t1.GetRequired())
	require.Zero(t, t1.GetPosition())
	w.do(http.MethodGet, "/api/v1/queue/status/calm", "", theirs)
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

func TestEntryTokenIsPassedOnTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.entryToken(calm, alice)
	end := time.Now().Add(10 * time.Minute).UnixMilli()
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
		require.InDelta(t, 59, ck.MaxAge, 2, "the token's life, not the slot's")
		if strings.Contains(c.path, "heartbeat") {
			require.Len(t, m, 3)
		}
	}

	rec := w.do(http.MethodPost, "/api/v1/queue/leave/calm", "", w.buyer(calm))
	require.Equal(t, http.StatusNoContent, rec.Code)
	require.Negative(t, cookieOf(rec, "urr-entry-token").MaxAge)
	left, _ := w.queue.of("Leave")[0].msg.(*queuev1.LeaveRequest)
	require.Equal(t, slot, left.GetEntry().GetSlotId())
	require.Equal(t, alice, left.GetCaller().GetUserId())
	w.do(http.MethodPost, "/api/v1/queue/leave/calm", "", w.session(alice))
	left, _ = w.queue.of("Leave")[1].msg.(*queuev1.LeaveRequest)
	require.Nil(t, left.GetEntry())
}

func TestSeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.buyer(calm)
	rec := w.do(http.MethodGet, "/api/seats/calm", "", b)
	require.InDelta(t, 12, jsonOf(t, rec)["seats"], 0)
	require.Equal(t, `"layout1"`, rec.Header().Get("ETag"))
	require.Contains(t, rec.Header().Get("Cache-Control"), "immutable")
	require.Contains(t, rec.Header().Get("Cache-Control"), "private")
	rec = w.do(http.MethodGet, "/api/seats/calm", "", b.with("If-None-Match", `W/"layout1"`))
	require.Equal(t, http.StatusNotModified, rec.Code)
	require.Len(t, w.ticket.of("GetSeatMap"), 1)
	require.Equal(t, calm, w.ticket.of("GetSeatMap")[0].caller.GetEventId())

	rec = w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", b)
	require.Equal(t, "//A=", jsonOf(t, rec)["bitmap"])
	bits := b.with("Accept", "application/octet-stream")
	rec = w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", bits)
	require.Equal(t, []byte{0xff, 0xf0}, rec.Body.Bytes())
	require.Equal(t, "application/octet-stream", rec.Header().Get("Content-Type"))
	require.Equal(t, "Accept", rec.Header().Get("Vary"))
	etag := rec.Header().Get("ETag")
	require.Equal(t, http.StatusNotModified, w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", bits.with("If-None-Match", etag)).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", b.with("If-None-Match", etag)).Code)
}

func TestReserve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ path, body, method string }{
		{"/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1"]}`, "HoldSeats"},
		{"/api/reservations", `{"eventId":"calm","section":"A","quantity":2}`, "HoldBest"},
	} {
		rec := w.do(http.MethodPost, c.path, c.body, w.buyer(calm).with("Idempotency-Key", "k1"))
		require.Equal(t, http.StatusCreated, rec.Code, "%s", rec.Body)
		require.Equal(t, "/api/v1/my/reservations/"+requestID, rec.Header().Get("Location"))
		require.Equal(t, "HELD", jsonOf(t, rec)["status"])
		who := w.ticket.of(c.method)[0].caller
		require.Equal(t, alice, who.GetUserId())
		require.Equal(t, calm, who.GetEventId())
		require.Equal(t, slot, who.GetSlotId())
		require.Equal(t, epoch, who.GetEpoch())
		require.Equal(t, "k1", who.GetIdempotencyKey())
	}
	// The event of the body decides which token is needed.
	rec := w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"other","seatIds":["A-1-1"]}`, w.buyer(calm))
	require.Equal(t, "/queue/other", problemOf(t, rec)["redirectTo"])

	w.ticket.hold = func(string) *ticketv1.HoldResult {
		p := errs.ToProblem(errs.ErrSeatTaken.With("seatIds", "A-1-1,A-1-2"))
		return &ticketv1.HoldResult{Result: &ticketv1.HoldResult_Problem{Problem: p}}
	}
	rec = w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1","A-1-2"]}`, w.buyer(calm))
	require.Equal(t, http.StatusConflict, rec.Code)
	require.Equal(t, []any{"A-1-1", "A-1-2"}, problemOf(t, rec)["seatIds"])
}

// TestBatchesKeepCallersApart: calls of different people that meet in one RPC stay theirs.
func TestBatchesKeepCallersApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ticket.hold = func(event string) *ticketv1.HoldResult {
		if event == "taken" {
			return &ticketv1.HoldResult{Result: &ticketv1.HoldResult_Problem{Problem: errs.ToProblem(errs.ErrSoldOut)}}
		}
		return &ticketv1.HoldResult{Result: &ticketv1.HoldResult_Reservation{Reservation: &ticketv1.Reservation{ReservationId: event}}}
	}
	var wg sync.WaitGroup
	events := []string{"e1", "e2", "taken", "e3", "e4", "e5"}
	got := make([]*httptest.ResponseRecorder, 60)
	for i := range got {
		wg.Go(func() {
			event := events[i%len(events)]
			user := "user-" + event
			c := w.session(user).with("X-Queue-Entry-Token", w.entryToken(event, user))
			got[i] = w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"`+event+`","seatIds":["A-1-1"]}`, c)
		})
	}
	wg.Wait()
	for i, rec := range got {
		if event := events[i%len(events)]; event == "taken" {
			require.Equal(t, "SOLD_OUT", problemOf(t, rec)["code"])
		} else {
			require.Equal(t, event, jsonOf(t, rec)["reservationId"])
		}
	}
	for _, c := range w.ticket.of("HoldSeats") {
		item, _ := c.msg.(*ticketv1.HoldSeatsItem)
		require.Equal(t, "user-"+item.GetEventId(), c.caller.GetUserId())
		require.Equal(t, item.GetEventId(), c.caller.GetEventId())
	}
}

// What one visitor sends as a ticket must not fail the call that answers others too.
func TestNoTicketFailsOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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

// TestSlotsAndEpochs is step 5: who asks queue, when, and what then.
func TestSlotsAndEpochs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reserve := func() *httptest.ResponseRecorder {
		return w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1"]}`, w.buyer(calm))
	}
	look := func() *httptest.ResponseRecorder {
		return w.do(http.MethodGet, "/api/v1/seats/calm", "", w.buyer(calm))
	}

	require.Equal(t, http.StatusOK, look().Code)
	require.Empty(t, w.queue.of("VerifySlots"), "reading asks nobody")
	require.Equal(t, http.StatusCreated, reserve().Code)
	require.Len(t, w.queue.of("VerifySlots"), 1)

	w.queue.end(slot)
	rec := reserve()
	require.Equal(t, http.StatusForbidden, rec.Code)
	require.Equal(t, "SLOT_ENDED", problemOf(t, rec)["code"])
	require.Equal(t, "/queue/calm", problemOf(t, rec)["redirectTo"])
	require.Equal(t, http.StatusOK, look().Code)

	// A line that began anew: in its pause the old tokens are honoured, afterwards they are not.
	w.line(calm, epoch+1, time.Now().Add(time.Hour).UnixMilli())
	require.Equal(t, http.StatusOK, look().Code)
	w.line(calm, epoch+1, time.Now().UnixMilli())
	require.Eventually(t, func() bool { return look().Code == http.StatusForbidden }, 5*time.Second, time.Millisecond)
	require.Equal(t, "QUEUE_TOKEN_REQUIRED", problemOf(t, look())["code"])

	// Where the gateway knows no line, queue decides every call; and nobody passes who cannot be asked about.
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
	w := newWorld(t, func(c *app.Config, _ *app.Services) { c.VerifySlots = false })
	rec := w.do(http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1"]}`, w.buyer(calm))
	require.Equal(t, http.StatusCreated, rec.Code)
	require.Empty(t, w.queue.of("VerifySlots"))
}
