package app_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestSeats(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
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
	acceptsBitmap := b.with("Accept", "application/octet-stream")
	rec = w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", acceptsBitmap)
	require.Equal(t, []byte{0xff, 0xf0}, rec.Body.Bytes())
	require.Equal(t, "application/octet-stream", rec.Header().Get("Content-Type"))
	require.Equal(t, "Accept, Accept-Encoding", rec.Header().Get("Vary"))
	etag := rec.Header().Get("ETag")
	require.Equal(t, http.StatusNotModified, w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", acceptsBitmap.with("If-None-Match", etag)).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", b.with("If-None-Match", etag)).Code)
}

// The JSON is compressed for clients that accept gzip. Each coding has its own ETag, and a poll
// with either ETag gets 304.
func TestAvailabilityIsCompressed(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.ticket.taken = 8000
	b := w.buyer(calm)
	const path = "/api/v1/seats/calm/availability"
	plain := w.do(http.MethodGet, path, "", b)
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	coded := w.do(http.MethodGet, path, "", b.with("Accept-Encoding", "gzip, deflate, br"))
	require.Equal(t, "gzip", coded.Header().Get("Content-Encoding"))
	require.Equal(t, strconv.Itoa(coded.Body.Len()), coded.Header().Get("Content-Length"))
	require.Less(t, coded.Body.Len(), plain.Body.Len())
	etags := []string{plain.Header().Get("ETag"), coded.Header().Get("ETag")}
	require.NotEqual(t, etags[0], etags[1])
	z, err := gzip.NewReader(coded.Body)
	require.NoError(t, err)
	body, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, plain.Body.Bytes(), body)
	require.Empty(t, w.do(http.MethodGet, path, "", b.with("Accept-Encoding", "gzip;q=0")).Header().Get("Content-Encoding"))
	for _, etag := range etags {
		rec := w.do(http.MethodGet, path, "", b.with("If-None-Match", etag))
		require.Equal(t, http.StatusNotModified, rec.Code)
		require.Equal(t, etag, rec.Header().Get("ETag"))
	}
}

// The JSON has prices, and its ETag changes with them. The bitmap and its ETag stay the same.
func TestAvailabilityTagsWhatItHas(t *testing.T) {
	t.Parallel()
	tag := func(price int64, accept string) string {
		w := newFixture(t)
		w.ticket.price = price
		return w.do(http.MethodGet, "/api/v1/seats/calm/availability", "", w.buyer(calm).with("Accept", accept)).Header().Get("ETag")
	}
	first := tag(70, "application/json")
	require.Equal(t, first, tag(70, "application/json"))
	require.NotEqual(t, first, tag(90, "application/json"))
	require.Equal(t, tag(70, "application/octet-stream"), tag(90, "application/octet-stream"))
}

func TestReserve(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
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
	// The required entry token is that of the event in the body.
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

// Calls of different users that share one RPC keep their own callers.
func TestBatchesKeepCallersSeparate(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
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
