package crowd_test

import (
	"cmp"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

func TestHalfTheCrowdArrivesAtTheOpening(t *testing.T) {
	t.Parallel()
	const n, period = 1000, 100 * time.Second
	early := 0
	for _, at := range crowd.Arrivals(n, period, rand.New(rand.NewPCG(1, 1))) {
		require.GreaterOrEqual(t, at, time.Duration(0))
		require.Less(t, at, period)
		if at < period/5 {
			early++
		}
	}
	require.Greater(t, early, n/2)
}

func TestTamperedTokenIsWellFormed(t *testing.T) {
	t.Parallel()
	key := []byte("a key of thirty-two bytes or more")
	genuine, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "event", "uid": "alice"}).SignedString(key)
	require.NoError(t, err)
	tampered := crowd.Tamper(genuine)
	require.NotEqual(t, genuine, tampered)
	require.Len(t, tampered, len(genuine))
	_, err = jwt.Parse(tampered, func(*jwt.Token) (any, error) { return key, nil })
	require.Error(t, err)
	require.NotEqual(t, "AQIDBAUG", crowd.Tamper("AQIDBAUG"), "a value that is no JWT is tampered with too")
	require.Empty(t, crowd.Tamper(""))
}

// A session keeps, deletes and copies cookies as a browser does. It returns a refusal as a
// response, not as an error.
func TestSessionBehavesLikeABrowser(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/set":
			http.SetCookie(w, &http.Cookie{Name: "urr-anon", Value: "a"})
		case "/drop":
			http.SetCookie(w, &http.Cookie{Name: "urr-anon", MaxAge: -1})
		case "/refuse":
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(map[string]any{"code": "SEAT_TAKEN"})
			return
		}
		c, err := r.Cookie("urr-anon")
		if err == nil {
			_, _ = w.Write([]byte(c.Value))
		}
	}))
	t.Cleanup(server.Close)
	rec := crowd.NewRecorder()
	api := crowd.NewAPI(server.URL, rec)
	t.Cleanup(api.Close)
	s := api.NewSession()
	call := func(s *crowd.Session, path string) *crowd.Answer {
		ans, err := s.Call(t.Context(), crowd.StepEvent, http.MethodGet, path, nil, nil)
		require.NoError(t, err)
		return ans
	}
	call(s, "/set")
	require.Equal(t, "a", string(call(s, "/look").Body))
	tab := s.Fork()
	call(s, "/drop")
	require.Empty(t, call(s, "/look").Body)
	require.Equal(t, "a", string(call(tab, "/look").Body), "another tab has its own copy")
	require.Equal(t, "SEAT_TAKEN", call(s, "/refuse").Problem().Code)
	require.Zero(t, rec.Summaries()[0].Errors, "a refusal is no error")
}

// Every browser has its own address, since gateways limit the new visitors per address. A second
// tab has the same address.
func TestEveryBrowserHasAnAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Header.Get("X-Forwarded-For")))
	}))
	t.Cleanup(server.Close)
	api := crowd.NewAPI(server.URL, crowd.NewRecorder())
	t.Cleanup(api.Close)
	address := func(s *crowd.Session) string {
		ans, err := s.Call(t.Context(), crowd.StepEvent, http.MethodGet, "/", nil, nil)
		require.NoError(t, err)
		return string(ans.Body)
	}
	first, second := api.NewSession(), api.NewSession()
	require.Equal(t, "10.0.0.1", address(first))
	require.Equal(t, "10.0.0.1", address(first.Fork()))
	require.Equal(t, "10.0.0.2", address(second))
}

// network responds with the given statuses in order; 0 closes the connection.
type network struct {
	statuses []int
	body     string
	requests int
}

func (n *network) RoundTrip(*http.Request) (*http.Response, error) {
	status := n.statuses[min(n.requests, len(n.statuses)-1)]
	n.requests++
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	rec := httptest.NewRecorder()
	if status == http.StatusTooManyRequests {
		rec.Header().Set("Retry-After", "7")
	}
	rec.WriteHeader(status)
	_, _ = rec.WriteString(cmp.Or(n.body, `{"token":"t"}`))
	return rec.Result(), nil
}

// Visitors repeat a request after a 503 or no response, as when a service restarts.
func TestVisitorRetriesTransientErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{statuses: []int{0, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusOK}}
		start := time.Now()
		require.NoError(t, crowd.NewAPIOver(n, crowd.NewRecorder()).Login(t.Context(), "alice"))
		require.Equal(t, 5, n.requests)
		require.Greater(t, time.Since(start), 5*time.Second, "what a refusal advises is kept") // in fake time
	})
}

func TestOperatorRepeatsWhileOverloaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{statuses: []int{
			http.StatusServiceUnavailable, http.StatusOK, // the login
			http.StatusGatewayTimeout, http.StatusOK, // the event
			http.StatusGatewayTimeout, http.StatusServiceUnavailable, http.StatusOK, // the waiting room
		}}
		sale := crowd.Sale{EventID: "e", Seats: 20}
		require.NoError(t, sale.Open(t.Context(), crowd.NewAPIOver(n, crowd.NewRecorder()), "operator"))
		require.Equal(t, len(n.statuses), n.requests)

		gone := &network{statuses: []int{http.StatusServiceUnavailable}}
		require.ErrorContains(t, sale.Open(t.Context(), crowd.NewAPIOver(gone, crowd.NewRecorder()), "operator"), "503")
		require.Equal(t, 30, gone.requests)
	})
}

// startRecorder records the start in each PUT of an event. It answers with a fixed start.
type startRecorder struct{ put []string }

func (s *startRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		var event struct{ StartsAt string }
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			return nil, err
		}
		s.put = append(s.put, event.StartsAt)
	}
	rec := httptest.NewRecorder()
	_, _ = rec.WriteString(`{"token":"t","startsAt":"2026-03-07T10:00:00Z"}`)
	return rec.Result(), nil
}

// Close puts the whole event, with the same start: the API refuses another once a ticket is sold.
func TestCloseKeepsTheStart(t *testing.T) {
	t.Parallel()
	s := &startRecorder{}
	require.NoError(t, crowd.Sale{EventID: "e"}.Close(t.Context(), crowd.NewAPIOver(s, crowd.NewRecorder()), "operator"))
	require.Equal(t, []string{"2026-03-07T10:00:00Z"}, s.put)
}

func TestVisitorDoesNotRetryRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refuses := &network{statuses: []int{http.StatusForbidden}}
		require.ErrorContains(t, crowd.NewAPIOver(refuses, crowd.NewRecorder()).Login(t.Context(), "alice"), "403")
		require.Equal(t, 1, refuses.requests)

		gone := &network{statuses: []int{http.StatusServiceUnavailable}}
		start := time.Now()
		require.ErrorContains(t, crowd.NewAPIOver(gone, crowd.NewRecorder()).Login(t.Context(), "alice"), "Service Unavailable")
		require.Greater(t, time.Since(start), time.Minute, "longer than a restart and its pause take")
	})
}

// A visitor whose card is declined during a short outage of the provider waits and tries again,
// since the seats of a visitor who leaves would stay held for minutes.
func TestDeclinedVisitorWaitsBeforeNextAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		declines := &network{statuses: []int{http.StatusOK}, body: `{"status":"DECLINED"}`}
		start := time.Now()
		require.ErrorContains(t, crowd.NewAPIOver(declines, crowd.NewRecorder()).Pay(t.Context(), 5), "declined")
		require.Equal(t, 10, declines.requests, "prepare and confirm for each attempt")
		require.Greater(t, time.Since(start), 2*time.Second) // in fake time
	})
}

func TestViolationsListsObservedViolations(t *testing.T) {
	t.Parallel()
	var tally crowd.Tally
	tally.Ticket("A-1-1", "alice")
	tally.Ticket("A-1-1", "alice")
	tally.Ticket("A-1-2", "bob")
	tally.Paid.Add(2)
	tally.Ticketed.Add(2)
	require.Empty(t, tally.Violations(), "looking twice at one's own ticket is no harm")
	tally.Ticket("A-1-1", "bob")
	tally.Paid.Add(1)
	require.Equal(t, []string{"two hold a ticket of one seat: A-1-1 (alice and bob)", "1 paid and did not see a ticket"}, tally.Violations())
}
