package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"urr.guru/pkg/claims"
)

// phase is a visitor's state.
type phase int

const (
	joins phase = iota
	waits
	inside
	gone
)

// visitor is a browser in the line: it stores what the pages store, and polls as they do. Its
// crowd's lock guards it.
type visitor struct {
	user, bearer, address string

	phase    phase
	ticket   string // queue ticket of the waiting place
	entry    string // entry token
	slot     *claims.Entry
	leaveAt  time.Time // only inside
	failures int       // since the last answer
	answered time.Time // time of the last answer

	due       time.Time
	away      bool // makes no calls
	scheduled bool // is in the crowd's schedule
	busy      bool // has a call in flight
}

// placeAnswer is the queue service's answer about a place. To a heartbeat it has fewer fields.
type placeAnswer struct {
	Status     string  `json:"status"`
	NextPoll   float64 `json:"nextPoll"`
	EntryToken string  `json:"entryToken"`
	Ticket     string  `json:"ticket"`
}

// call is a visitor's next request.
type call struct {
	method, path string
	header       http.Header
}

// reply is the response to a call, or the error of the transport.
type reply struct {
	status     int
	retryAfter time.Duration
	body       []byte
	err        error
}

// temporary reports whether the pages would repeat the call.
func (r reply) temporary() bool {
	return r.err != nil || r.status >= http.StatusInternalServerError || r.status == http.StatusTooManyRequests
}

// next returns the call that the page makes now.
func (v *visitor) next(event string, now time.Time) call {
	c := call{method: http.MethodPost, path: "/api/v1/queue/", header: http.Header{
		"Authorization": {"Bearer " + v.bearer}, "X-Forwarded-For": {v.address}, "Accept": {"application/json"},
	}}
	if v.ticket != "" {
		c.header["X-Queue-Ticket"] = []string{v.ticket}
	}
	if v.entry != "" {
		c.header["X-Queue-Entry-Token"] = []string{v.entry}
	}
	switch {
	case v.phase == waits:
		c.method, c.path = http.MethodGet, c.path+"status/"+event
	case v.phase == inside && now.Before(v.leaveAt):
		c.path += "heartbeat/" + event
	case v.phase == inside:
		c.path += "leave/" + event
	default:
		c.path += "check/" + event
	}
	return c
}

// backoff returns the pages' pause after a temporary failure, at least as long as the server asks.
func (v *visitor) backoff(least time.Duration) time.Duration {
	v.failures++
	return max(least, time.Duration(min(30, 1<<min(v.failures-1, 5)))*time.Second)
}

// enter keeps a new entry token. Tokens of the same slot must have the same end.
func (v *visitor) enter(token string) (fresh bool, problem string) {
	entry := new(claims.Entry)
	if _, _, err := jwt.NewParser().ParseUnverified(token, entry); err != nil {
		return false, fmt.Sprintf("%s got the token %q: %v", v.user, token, err)
	}
	before := v.slot
	fresh = before == nil || before.SlotID != entry.SlotID
	v.entry, v.slot = token, entry
	switch {
	case before != nil && v.phase == inside && fresh:
		problem = fmt.Sprintf("%s was inside with the slot %s and now has %s", v.user, before.SlotID, entry.SlotID)
	case !fresh && before.End != entry.End:
		problem = fmt.Sprintf("the slot of %s was to end at %d and now at %d", v.user, before.End, entry.End)
	}
	return fresh, problem
}

// evict ends the slot of a visitor inside whom the queue service has put out: a problem.
func (v *visitor) evict() (problem string) {
	problem = v.user + " lost the slot before its end"
	v.entry, v.slot = "", nil
	return problem
}

func parsePlace(body []byte) (p placeAnswer, err error) {
	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("answer %q: %w", body, err)
	}
	return p, nil
}

func seconds(header string) time.Duration {
	n, err := strconv.Atoi(header)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}
