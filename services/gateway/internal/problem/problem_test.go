package problem

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/telemetry"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestEveryCodeHasADetailInBothLanguages(t *testing.T) {
	t.Parallel()
	catalogued := map[string]bool{}
	for _, e := range errs.Catalogue() {
		catalogued[e.Reason] = true
		d, ok := details[e.Reason]
		require.True(t, ok, "%s has no detail", e.Reason)
		require.NotEmpty(t, d.en, e.Reason)
		require.True(t, strings.ContainsFunc(d.ko, func(r rune) bool { return r >= 0xac00 && r <= 0xd7a3 }), "%s is not Korean", e.Reason)
	}
	for code := range details {
		require.True(t, catalogued[code], "%s is not a code of the catalogue", code)
	}
}

// The Korean word for an event is 공연. Only errors about a seat mention seats, since standing
// places have none.
func TestSentencesFitEverySale(t *testing.T) {
	t.Parallel()
	seats := regexp.MustCompile(`(?i)\bseats?\b|좌석`)
	for code, d := range details {
		require.NotContains(t, d.ko, "이벤트", code)
		if !strings.HasPrefix(code, "SEAT_") && !strings.HasPrefix(code, "SEATS_") {
			require.NotRegexp(t, seats, d.en, code)
			require.NotRegexp(t, seats, d.ko, code)
		}
	}
}

func TestDocumentsMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		lang string
		err  error
	}{
		"queue_token_required_ko": {"ko", errs.ErrQueueTokenRequired.With("redirectTo", "/queue/demo")},
		"invalid_fields":          {"en", errs.ErrInvalidRequest.WithFields(errs.Field{Path: "sections[0].price", Message: "must be at least 0"})},
		"seat_taken":              {"en", errs.ErrSeatTaken.With("seatIds", "A-1-1,A-1-2")},
		"rate_limited":            {"en", errs.ErrRateLimited.WithRetry(1500 * time.Millisecond)},
		"internal_hides_cause":    {"en", errs.ErrInternal.Wrap(errors.New("pgx: password authentication failed"))},
		"foreign_redirect":        {"en", errs.ErrForbidden.With("redirectTo", "//evil.example/x")},
		"newer_than_the_gateway":  {"ko", errs.New(errs.Conflict, "BRAND_NEW", "Something new")},
		"reserved_metadata":       {"en", errs.ErrConflict.With("status", "200").With("code", "OK").With("usedAt", "2026-01-02T03:04:05Z")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := write(t, c.lang, http.MethodGet, c.err)
			var got bytes.Buffer
			require.NoError(t, json.Indent(&got, rec.Body.Bytes(), "", "  "))
			file := filepath.Join("testdata", name+".json")
			if *update {
				require.NoError(t, os.WriteFile(file, got.Bytes(), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(string(want), got.String()))
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	rec := write(t, "en", http.MethodGet, errs.ErrRateLimited.WithRetry(2100*time.Millisecond))
	require.Equal(t, http.StatusTooManyRequests, rec.Code)
	require.Equal(t, "3", rec.Header().Get("Retry-After"))
	require.Equal(t, ContentType, rec.Header().Get("Content-Type"))
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))

	require.Equal(t, "1", write(t, "en", http.MethodGet, errs.ErrUnavailable).Header().Get("Retry-After"))
	require.NotEmpty(t, write(t, "en", http.MethodGet, errs.ErrUnauthenticated).Header().Get("WWW-Authenticate"))

	rec = write(t, "en", http.MethodGet, errs.ErrMethodNotAllowed.With("allow", "GET, HEAD"))
	require.Equal(t, http.StatusMethodNotAllowed, rec.Code)
	require.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
	require.NotContains(t, rec.Body.String(), `"allow"`)

	require.Equal(t, http.StatusUnsupportedMediaType, write(t, "en", http.MethodPost, errs.ErrUnsupportedMedia).Code)
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, write(t, "en", http.MethodGet, errs.ErrRangeNotSatisfiable).Code)
	require.Empty(t, write(t, "en", http.MethodHead, errs.ErrNotFound).Body.String())
}

// Neither an attack nor the outage of a service that a million visitors poll overloads the log.
// Each code has its own limit, so that other codes are still logged.
func TestErrorsAreLoggedWithinALimit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, "gateway", "info")
	require.NoError(t, err)
	p := New(english, log)
	writeError := func(id string, err error) {
		p.Write(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", nil), id, err)
	}
	synctest.Test(t, func(t *testing.T) {
		for second := range 3 {
			for i := range 1000 {
				writeError("id", errs.ErrNotFound)
				writeError("id", errs.ErrUnavailable)
				writeError("id", errs.New(errs.Conflict, "MADE_UP_"+strconv.Itoa(i), "made up"))
			}
			require.Equal(t, (second+1)*3*10, strings.Count(out.String(), "\n"), "lines in %d s", second+1)
			time.Sleep(time.Second)
		}
		require.Equal(t, 2*3, strings.Count(out.String(), `"suppressed":990`))
		for range 1000 {
			writeError("id", errs.ErrNotFound)
			writeError("id", errs.ErrUnavailable)
		}
		out.Reset()
		writeError("id-7", errs.ErrInternal.Wrap(errors.New("why")))
		require.Contains(t, out.String(), `"level":"ERROR"`)
		require.Contains(t, out.String(), "why")
		require.Contains(t, out.String(), "id-7")
	})
}

func english(*http.Request) string { return "en" }

func write(t *testing.T, lang, method string, err error) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	p := New(func(*http.Request) string { return lang }, slog.New(slog.DiscardHandler))
	p.Write(rec, httptest.NewRequest(method, "/api/v1/seats/demo?token=secret", nil), "0197-req", err)
	return rec
}
