package stripe

import (
	"net/http"
	"strings"
	"sync"

	xrate "golang.org/x/time/rate"
)

// limits refuses calls beyond the account's limits, as docs.stripe.com/rate-limits describes: so many a
// second to each endpoint, and in all. How Stripe counts is not published; here a bucket holds the
// calls of one second.
type limits struct {
	mu        sync.Mutex
	perSecond float64
	each      map[string]*xrate.Limiter
	all       *xrate.Limiter
	refused   int
}

// SetLimits sets the most calls per second, to each endpoint and in all; 0: there is no limit.
func (s *Server) SetLimits(perEndpoint, inAll float64) {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	s.limits.perSecond, s.limits.each, s.limits.all = perEndpoint, map[string]*xrate.Limiter{}, bucketOf(inAll)
}

// Refused returns how many calls were beyond the limits.
func (s *Server) Refused() int {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	return s.limits.refused
}

func bucketOf(perSecond float64) *xrate.Limiter {
	return xrate.NewLimiter(xrate.Limit(perSecond), int(perSecond))
}

// exceeded returns which limit a call to the endpoint exceeds; empty: none.
func (l *limits) exceeded(endpoint string) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perSecond == 0 {
		return ""
	}
	if l.each[endpoint] == nil {
		l.each[endpoint] = bucketOf(l.perSecond)
	}
	switch {
	case !l.each[endpoint].Allow():
		reason = "endpoint-rate"
	case !l.all.Allow():
		reason = "global-rate"
	default:
		return ""
	}
	l.refused++
	return reason
}

// limited answers a call that exceeds a limit, and reports whether it did.
func (s *Server) limited(w http.ResponseWriter, r *http.Request) bool {
	_, endpoint := s.mux.Handler(r)
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		return false
	}
	reason := s.limits.exceeded(endpoint)
	if reason == "" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Stripe-Rate-Limited-Reason", reason)
	w.WriteHeader(tooMany.Status)
	_, _ = w.Write(tooMany.Body) // an error means that the client has left
	return true
}
