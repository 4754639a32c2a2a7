package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// discard is a ResponseWriter that stores nothing, so that only the handler is measured.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkPolls measures the polls that are answered from memory, as a waiting visitor sends them.
func BenchmarkPolls(b *testing.B) {
	w := newFixture(b)
	c, id := w.visitor()
	c = c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 4000))
	for _, poll := range []string{"check/busy/" + requestID, "serving/busy", "status/busy"} {
		b.Run(poll, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/vwr-api/vwr/"+poll, nil)
			for k, v := range c {
				r.Header.Set(k, v)
			}
			b.ReportAllocs()
			for b.Loop() {
				w.gateway.Handler.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}

// BenchmarkSoldOut measures the refusal from memory of a user who has got SOLD_OUT a moment ago.
func BenchmarkSoldOut(b *testing.B) {
	w := newFixture(b)
	body := strings.NewReader("{}")
	r := httptest.NewRequest(http.MethodPost, "/api/v1/promotions/"+soldOut+"/requests", body)
	r.Header.Set("Content-Type", "application/json")
	for k, v := range w.session(alice) {
		r.Header.Set(k, v)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.gateway.Handler.ServeHTTP(discard{http.Header{}}, r)
	}
}
