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

// phase is where a visitor is.
type phase int

const (
	joins phase = iota
	waits
	inside
	gone
)

// visitor is a browser in the line: it keeps what the pages keep and polls as they do. The lock of
// its crowd guards it.
type visitor struct {
	user, bearer, address string

	phase    phase
	ticket   string // of the waiting place
	entry    string // token
	slot     *claims.Entry
	leaveAt  time.Time // when inside
	failures int       // since the last answer
	answered time.Time // the last time

	due    time.Time
	away   bool // makes no calls
	queued bool // is in the crowd's schedule
	busy   bool // has a call in flight
}

// placeAnswer is an answer about the place; a heartbeat's has fewer members.
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

// reply is its answer; an err is one of the transport.
type reply struct {
	status     int
	retryAfter time.Duration
	body       []byte
	err        error
}

// temporary reports whether pages repeat the call by themselves.
func (r reply) temporary() bool {
	return r.err != nil || r.status >= http.StatusInternalServerError || r.status == http.StatusTooManyRequests
}

// next is what the page calls now.
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

// backoff is the pause of the pages after a temporary failure.
func (v *visitor) backoff(asked time.Duration) time.Duration {
	v.failures++
	return max(asked, time.Duration(min(30, 1<<min(v.failures-1, 5)))*time.Second)
}

// enter keeps a new entry token. A token of the same slot must name the same end.
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

// evict is the answer to a visitor inside that the slot has ended.
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
