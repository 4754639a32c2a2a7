package pages_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/network"
)

// traffic is what a tab asked of its server: who looks for the reason of a failure wants to know
// which request stayed without an answer, or which came last.
type traffic struct {
	began time.Time

	mu   sync.Mutex
	asks []*ask
	open map[network.RequestID]*ask
}

// ask is one request of a tab; end is empty until the answer came.
type ask struct {
	at        time.Duration
	what, end string
}

// shownAsks of a tab's last requests tell how it came where it is.
const shownAsks = 30

func newTraffic() *traffic {
	return &traffic{began: time.Now(), open: map[network.RequestID]*ask{}}
}

// note takes down what an event of the browser says of a request.
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

func (r *traffic) sent(id network.RequestID, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &ask{at: time.Since(r.began), what: what}
	r.asks, r.open[id] = append(r.asks, a), a
}

func (r *traffic) ended(id network.RequestID, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.open[id]; a != nil {
		a.end = fmt.Sprintf("%s after %v", how, (time.Since(r.began) - a.at).Round(time.Millisecond))
		delete(r.open, id)
	}
}

// String lists the last requests, a line each.
func (r *traffic) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "%v after the tab was opened, its last requests:", time.Since(r.began).Round(time.Millisecond))
	for _, a := range r.asks[max(0, len(r.asks)-shownAsks):] {
		end := a.end
		if end == "" {
			end = "no answer"
		}
		fmt.Fprintf(&out, "\n%9v %s: %s", a.at.Round(time.Millisecond), a.what, end)
	}
	return out.String()
}
