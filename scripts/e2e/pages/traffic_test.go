package pages_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/network"
)

// traffic records a tab's requests. After a failed test it shows which one had no response.
type traffic struct {
	began time.Time

	mu       sync.Mutex
	requests []*requestRecord
	open     map[network.RequestID]*requestRecord
}

// requestRecord is one request of a tab; end is empty until the response arrived.
type requestRecord struct {
	sentAfter        time.Duration
	request, outcome string
}

// shownRequests is how many of a tab's last requests are shown.
const shownRequests = 30

func newTraffic() *traffic {
	return &traffic{began: time.Now(), open: map[network.RequestID]*requestRecord{}}
}

// note records a request from a browser event.
func (r *traffic) note(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		r.sent(e.RequestID, e.Request.Method+" "+e.Request.URL)
	case *network.EventResponseReceived:
		r.ended(e.RequestID, fmt.Sprint(e.Response.Status))
	case *network.EventLoadingFailed:
		r.ended(e.RequestID, e.ErrorText)
	}
}

func (r *traffic) sent(id network.RequestID, request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &requestRecord{sentAfter: time.Since(r.began), request: request}
	r.requests, r.open[id] = append(r.requests, a), a
}

func (r *traffic) ended(id network.RequestID, outcome string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.open[id]; a != nil {
		a.outcome = fmt.Sprintf("%s after %v", outcome, (time.Since(r.began) - a.sentAfter).Round(time.Millisecond))
		delete(r.open, id)
	}
}

// contain reports whether a request beginning so was sent, such as "GET http://host/path".
func (r *traffic) contain(beginning string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.requests, func(a *requestRecord) bool { return strings.HasPrefix(a.request, beginning) })
}

// failed reports whether a request beginning so had an error or no response yet.
func (r *traffic) failed(beginning string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.requests, func(a *requestRecord) bool {
		return strings.HasPrefix(a.request, beginning) && !strings.HasPrefix(a.outcome, "2")
	})
}

// String lists the last requests, a line each.
func (r *traffic) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "%v after the tab was opened, its last requests:", time.Since(r.began).Round(time.Millisecond))
	for _, a := range r.requests[max(0, len(r.requests)-shownRequests):] {
		end := a.outcome
		if end == "" {
			end = "no answer"
		}
		fmt.Fprintf(&out, "\n%9v %s: %s", a.sentAfter.Round(time.Millisecond), a.request, end)
	}
	return out.String()
}
