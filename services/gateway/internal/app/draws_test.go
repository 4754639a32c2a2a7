package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// The gateway joins the parts of a draw's document, and caches the document.
func TestDrawDocument(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodGet, "/api/v1/draws/calm", "", nil)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	doc := jsonOf(t, rec)
	require.Equal(t, []any{"a", "b", "c"}, doc["winners"])
	require.Equal(t, "SETTLED", doc["phase"])
	require.Len(t, doc["excluded"], 1)
	require.Equal(t, "public, max-age=0, s-maxage=1", rec.Header().Get("Cache-Control"))
	again := w.do(http.MethodGet, "/api/v1/draws/calm", "", credentials{"If-None-Match": rec.Header().Get("ETag")})
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Len(t, w.ingest.of("GetDraw"), 1)

	rec = w.do(http.MethodGet, "/api/v1/draws/absent", "", nil)
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "DRAW_NOT_FOUND", problemOf(t, rec)["code"])
}

func TestDrawEntries(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	file := drawEntries()
	get := func(c credentials) *httptest.ResponseRecorder {
		t.Helper()
		return w.do(http.MethodGet, "/api/v1/draws/calm/entries", "", c)
	}
	rec := get(nil)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, file, rec.Body.Bytes())
	require.Equal(t, "application/octet-stream", rec.Header().Get("Content-Type"))
	require.Equal(t, `"entries1"`, rec.Header().Get("ETag"))
	require.Equal(t, "public, max-age=86400, immutable", rec.Header().Get("Cache-Control"))
	require.Equal(t, http.StatusNotModified, get(credentials{"If-None-Match": `"entries1"`}).Code)

	for header, want := range map[string][]byte{"bytes=16-31": file[16:32], "bytes=1590-": file[1590:], "bytes=-16": file[len(file)-16:]} {
		rec := get(credentials{"Range": header})
		require.Equal(t, http.StatusPartialContent, rec.Code, header)
		require.Equal(t, want, rec.Body.Bytes(), header)
	}
	rec = get(credentials{"Range": "bytes=16-31", "If-Range": `"entries1"`})
	require.Equal(t, http.StatusPartialContent, rec.Code)
	require.Equal(t, http.StatusOK, get(credentials{"Range": "bytes=16-31", "If-Range": `"other"`}).Code)
	require.Equal(t, file, get(credentials{"Range": "bytes=0-1,4-5"}).Body.Bytes(), "several ranges would be several calls")

	for header, size := range map[string]string{"bytes=1600-": "bytes */1600", "bytes=x": ""} {
		rec := get(credentials{"Range": header})
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, rec.Code, header)
		require.Equal(t, "RANGE_NOT_SATISFIABLE", problemOf(t, rec)["code"], header)
		require.Equal(t, size, rec.Header().Get("Content-Range"), header)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"), header)
		require.Empty(t, rec.Header().Get("ETag"), header)
	}
	rec = get(credentials{"If-Match": `"other"`})
	require.Equal(t, http.StatusPreconditionFailed, rec.Code)
	require.Equal(t, "PRECONDITION_FAILED", problemOf(t, rec)["code"])

	rec = w.do(http.MethodGet, "/api/v1/draws/absent/entries", "", nil)
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "ENTRIES_NOT_PUBLIC", problemOf(t, rec)["code"])
}

// The chunks are together the file of entries. Each has its own URL, and caches may keep it.
func TestDrawChunks(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	get := func(chunk string, c credentials) *httptest.ResponseRecorder {
		t.Helper()
		return w.do(http.MethodGet, "/api/v1/draws/large/entries/"+chunk, "", c)
	}
	var file []byte
	for chunk, size := range map[string]int{"0": 320_000, "1": 320_000, "2": 48, "3": 0, "65535": 0} {
		rec := get(chunk, nil)
		require.Equal(t, http.StatusOK, rec.Code, chunk)
		require.Equal(t, size, rec.Body.Len(), chunk)
		require.Equal(t, "application/octet-stream", rec.Header().Get("Content-Type"))
		require.Equal(t, "public, max-age=86400, immutable", rec.Header().Get("Cache-Control"))
		require.Equal(t, http.StatusNotModified, get(chunk, credentials{"If-None-Match": rec.Header().Get("ETag")}).Code)
	}
	for _, chunk := range []string{"0", "1", "2"} {
		file = append(file, get(chunk, nil).Body.Bytes()...)
	}
	require.Equal(t, largeEntries(), file)
	require.Equal(t, file[320_016:320_032], get("1", credentials{"Range": "bytes=16-31"}).Body.Bytes())
	for _, chunk := range []string{"-1", "x", "65536", "1.0", "+1"} {
		rec := get(chunk, nil)
		require.Equal(t, http.StatusBadRequest, rec.Code, chunk)
		require.Equal(t, "INVALID_ID", problemOf(t, rec)["code"], chunk)
	}
	rec := w.do(http.MethodGet, "/api/v1/draws/absent/entries/0", "", nil)
	require.Equal(t, "ENTRIES_NOT_PUBLIC", problemOf(t, rec)["code"])
}

// A client gets a read error when the entries, the winners or the days end early.
func TestStreamsThatBreakOff(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	server := httptest.NewServer(w.gateway.Handler)
	t.Cleanup(server.Close)
	breaksOff := func(path string, who credentials) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		for name, value := range who {
			r.Header.Set(name, value)
		}
		answer, err := server.Client().Do(r)
		if err != nil { // nothing was sent before the end
			return
		}
		_, err = io.ReadAll(answer.Body)
		require.Error(t, err, path)
		require.NoError(t, answer.Body.Close())
	}
	winners, operator := "/api/v1/admin/promotions/calm/winners.csv", w.session("operator", "admin")
	w.ingest.cut.Store(true)
	breaksOff("/api/v1/draws/calm/entries", nil)
	breaksOff(winners, operator)
	breaksOff("/api/v1/admin/stats/days.csv?from=2026-11-20&to=2026-11-21&eventId=broken", operator)
}

func TestWinnersAreForOperators(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("operator", "admin")
	path := "/api/v1/admin/promotions/calm/winners.csv"
	rec := w.do(http.MethodGet, path, "", admin)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "rank,requestId,userId\r\n1,"+requestID+",alice\r\n", rec.Body.String())
	require.Equal(t, "text/csv; charset=utf-8", rec.Header().Get("Content-Type"))
	require.Equal(t, `attachment; filename="winners-calm.csv"`, rec.Header().Get("Content-Disposition"))
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	for i, call := range w.ingest.of("ExportWinners") {
		sent, _ := call.msg.(*ingestv1.ExportWinnersRequest)
		require.Equal(t, "operator", sent.GetCaller().GetUserId())
		require.Equal(t, int64(i), sent.GetAfter())
		require.NotZero(t, sent.GetLimit())
	}
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, path, "", w.session(alice)).Code)
	rec = w.do(http.MethodGet, "/api/v1/admin/promotions/absent/winners.csv", "", admin)
	require.Equal(t, http.StatusConflict, rec.Code)
	require.Equal(t, "ANNOUNCEMENT_EARLY", problemOf(t, rec)["code"])
}

// The list of winners may take longer than the write time-out of the server.
func TestWinnersOutliveTheWriteTimeout(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	server := httptest.NewUnstartedServer(w.gateway.Handler)
	server.Config.WriteTimeout = 1 // over before anything is written
	server.Start()
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/admin/promotions/calm/winners.csv", nil)
	require.NoError(t, err)
	for name, value := range w.session("operator", "admin") {
		r.Header.Set(name, value)
	}
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "rank,requestId,userId\r\n1,"+requestID+",alice\r\n", string(body))
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodDelete, "/api/v1/requests/"+requestID, "", w.session(alice))
	require.Equal(t, http.StatusNoContent, rec.Code, "%s", rec.Body)
	require.Equal(t, alice, w.ingest.of("WithdrawRequest")[0].caller.GetUserId())
	require.Equal(t, http.StatusUnauthorized, w.do(http.MethodDelete, "/api/v1/requests/"+requestID, "", nil).Code)
}
