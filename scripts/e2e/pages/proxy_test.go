package pages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// intercept starts a proxy in front of the platform, which passes on the requests that the test
// does not answer itself. answered returns true if it has answered.
func intercept(t *testing.T, answered func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(platformURL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		// The browser's own host; otherwise its requests would appear to come from another site.
		r.Out.Host = r.In.Host
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answered(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// saleStatus is the sale status that a proxy reports, and the number of queries for each event.
type saleStatus struct {
	mu      sync.Mutex
	status  string
	ends    map[string]*endedSale // events whose sale is reported as ended
	queries map[string]int
}

// endedSale reports the sale of an event as ended, permanently or in the next responses only.
type endedSale struct {
	status          string
	answered, times int // times 0 means permanently
}

func newSaleStatus() *saleStatus {
	return &saleStatus{ends: map[string]*endedSale{}, queries: map[string]int{}}
}

// set changes the reported status.
func (s *saleStatus) set(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// endSale reports one event's sale as ended.
func (s *saleStatus) endSale(event, status string) { s.endSaleTimes(event, status, 0) }

// endSaleTimes reports one event's sale as ended in a limited number of responses.
func (s *saleStatus) endSaleTimes(event, status string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[event] = &endedSale{status: status, times: times}
}

// clearSaleEnd stops reporting an event's sale as ended.
func (s *saleStatus) clearSaleEnd(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, event)
}

// endResponses counts the responses that an event's sale has ended.
func (s *saleStatus) endResponses(event string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[event].answered
}

// polls counts the queries for an event.
func (s *saleStatus) polls(event string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[event]
}

// answer records a query and returns the reported status.
func (s *saleStatus) answer(event string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries[event]++
	e := s.ends[event]
	if e == nil || e.times > 0 && e.answered == e.times {
		return s.status
	}
	e.answered++
	return e.status
}

// proxyRooms starts a proxy in front of the platform whose waiting rooms report the status that the
// test sets.
func proxyRooms(t *testing.T) (base string, s *saleStatus) {
	t.Helper()
	s = newSaleStatus()
	poll := func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/check/") || strings.HasPrefix(r.URL.Path, "/vwr-api/vwr/serving/")
	}
	base = alterAnswers(t, poll, func(r *http.Request, members object) {
		members["saleStatus"] = s.answer(strings.Split(r.URL.Path, "/")[4])
	})
	return base, s
}

// alterAnswers starts a proxy in front of the platform that alters the JSON of successful answers to the
// requests that `of` selects.
func alterAnswers(t *testing.T, of func(r *http.Request) bool, alter func(r *http.Request, members object)) string {
	t.Helper()
	target, err := url.Parse(platformURL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Header.Del("If-None-Match") // the platform's own response may be unchanged
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				return nil
			}
			var members object
			if err := json.NewDecoder(answer.Body).Decode(&members); err != nil {
				return err
			}
			alter(answer.Request, members)
			raw, err := json.Marshal(members)
			answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
			answer.Header.Set("Content-Length", strconv.Itoa(len(raw)))
			return err
		},
	}
	return intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		altered := of(r)
		if altered {
			proxy.ServeHTTP(w, r)
		}
		return altered
	})
}

// proxyLine starts a proxy in front of the platform whose lines keep every visitor waiting, as
// before a sale, and report the status that the test sets.
func proxyLine(t *testing.T) (base string, s *saleStatus) {
	t.Helper()
	s = newSaleStatus()
	base = intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		event, isLine := strings.CutPrefix(r.URL.Path, "/api/v1/queue/check/")
		if !isLine {
			event, isLine = strings.CutPrefix(r.URL.Path, "/api/v1/queue/status/")
		}
		if !isLine {
			return false
		}
		place := object{"nextPoll": 1, "threshold": 10, "currentUsers": 10, "status": "none"}
		place["saleStatus"] = s.answer(event)
		if place["saleStatus"] != "CLOSED" && place["saleStatus"] != "CANCELLED" {
			maps.Copy(place, object{"status": "queued", "queued": true, "position": 3, "peopleAhead": 2, "peopleBehind": 1, "estimatedWait": 90})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(place)
		return true
	})
	return base, s
}

// writeProblem refuses a request with a problem document.
func writeProblem(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// blockAfterPayment starts a proxy in front of the platform. After a payment was sent, requests
// whose path contains `path` are blocked until release is called.
func blockAfterPayment(t *testing.T, path string) (base string, release func()) {
	t.Helper()
	var sent atomic.Bool
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	base = intercept(t, func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/payments/confirm"):
			sent.Store(true)
		case strings.Contains(r.URL.Path, path) && sent.Load():
			<-gate
		}
		return false
	})
	t.Cleanup(release) // before the server is closed, which waits for its requests
	return base, release
}

// dropResponses starts a proxy in front of the platform that forwards all requests, but closes the
// connection instead of responding to requests that `lose` selects.
func dropResponses(t *testing.T, lose func(r *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(platformURL)
	require.NoError(t, err)
	return intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !lose(r) {
			return false
		}
		proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host
		}}
		// A browser that stops waiting must not cancel the call: only its response is lost.
		proxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		panic(http.ErrAbortHandler)
	})
}
