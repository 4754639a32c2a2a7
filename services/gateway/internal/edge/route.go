// Package edge decides which requests reach the services. It has the table of all routes and what
// each requires, cleans and matches paths, and checks that visitors have passed the waiting rooms.
// A path that is not in the table does not exist.
package edge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
)

// Access says who may call a route. Its values are those of the field "who" in the option
// urr.common.v1.edge.
type Access string

// What a request must have to be served, by the Access of its route.
const (
	Public  Access = "public"  // nothing
	Visitor Access = "visitor" // the signed cookie urr-anon
	User    Access = "user"    // a session
	Entry   Access = "entry"   // a session and a valid entry token of the event
	Staff   Access = "staff"   // a session with the role staff or admin
	Admin   Access = "admin"   // a session with the role admin
)

// EventSource says where a request contains its event's id. None also means that the route stays
// open while a waiting room is active.
type EventSource string

// These are the places of the event's id in a request.
const (
	None      EventSource = ""
	FromPath  EventSource = "path"  // the path's event_id
	FromBody  EventSource = "body"  // the body's eventId
	FromToken EventSource = "token" // the verified entry token's
)

// DefaultTimeout is the time-out of a request whose route has no Timeout.
const DefaultTimeout = 5 * time.Second

// These are the longest bodies, in bytes.
const (
	MaxBody    = 64 << 10
	MaxWebhook = 256 << 10
	// MaxUpload is enough for a list of a million users.
	MaxUpload = 64 << 20
)

// Body says what body a route reads. On a route with the zero value none is read.
type Body struct {
	// JSON bodies have at most MaxBody bytes and are read strictly (pkg/wire).
	JSON bool
	// Raw bodies are passed on unchanged, with at most MaxWebhook bytes.
	Raw bool
	// Stream bodies are read by the handler from Request.Upload. An operator's act is recorded without
	// them, its outcome with their digest.
	Stream bool
	// Message makes the message into which the JSON body of a hand-written route is parsed. It is nil
	// on pass-through routes, since their RPC defines the message.
	Message func() proto.Message
	// Required says in the API documentation that the body is required. It is set where the handler
	// needs a field that no rule of the message requires.
	Required bool
}

// Route is one method of one path, with everything that is required of its requests.
type Route struct {
	// ID is the name of the route in logs and metrics, such as "seats.reserve". A pass-through route
	// has the name of its RPC.
	ID      string
	Method  string
	Pattern string // such as /api/v1/seats/{event_id}
	Access  Access
	Event   EventSource
	Body    Body
	// Page routes serve pages to browsers. A refusal redirects to where the visitor can go on.
	Page bool
	// Poll routes have no lasting effect, whatever their method. Their requests are counted for the
	// rate limits in this process only, without Redis.
	Poll bool
	// Costly routes call servers outside the platform, or read a database for anybody and each time,
	// also because anybody can ask for something that is not cached. They have the rate limits of mutations, whatever their method.
	Costly bool
	// Cost is what a request costs the stores; declared for reads that need no session.
	Cost Cost
	// SignsIn is set for the route to which the identity provider redirects browsers. Its requests
	// have a separate limit per network.
	SignsIn bool
	// ServedWithoutKafka is set for operators' acts that stop or slow a sale, or shut users out. They
	// are not refused while Kafka cannot store their records.
	ServedWithoutKafka bool
	// Irreversible reports whether the act of a request with this body cannot be undone; then the
	// request is served as if ServedWithoutKafka were false. Nil: every act of the route can be
	// undone.
	Irreversible func(body []byte) bool
	// Personal says whether an operators' route shows personal data: then a read is recorded as an act.
	// Nil: it is not said, as for all routes but the operators' reads.
	Personal *bool
	// EventOf finds the event of an operator's act that has no event id in its path or body; it
	// returns "" if there is none. Nil: such acts of this route have no event.
	EventOf func(context.Context, *Request) string
	// Stream routes respond until the client disconnects. They have no Timeout, and are not counted in
	// the durations of requests.
	Stream bool
	// FastPath routes are served without tracing. They get a request id only if something fails.
	FastPath bool
	// Traced routes take the fast path only while tracing is off.
	Traced bool
	// IssuesVisitorID: visitors without the cookie urr-anon may call the route, which sets it.
	IssuesVisitorID bool
	// RPC is the full name of the method that gets the request; empty for hand-written routes.
	RPC string
	// Timeout is the time-out of a request outside the fast path; 0 = DefaultTimeout.
	Timeout time.Duration
	// Status is the HTTP status of success; 0 = 200.
	Status int
	// RepeatsAnswer: the route responds to a repeated request with status 200 and the same body.
	RepeatsAnswer bool
	// Answer is the message that a hand-written route responds with; for the documentation. A route
	// with status 204 and an Answer responds with 200 when it has an answer.
	Answer proto.Message
	// Summary, Description (in Markdown) and Example (a response) are texts of the API documentation.
	Summary, Description, Example string
	// Headers are the request headers that the route reads, without the credentials that Access
	// requires; for the documentation.
	Headers []Header
	// Refusal returns the error with which every request is refused during an overload, else nil. It
	// is called before the checks, which cost more. Nil: an overload refuses no request.
	Refusal func() error
	// RefusalFromMemory returns the error of a caller whom the service has refused for good a moment
	// ago, or whose turn has not come, else nil. It is called before mutations are counted for the rate
	// limits, since that is a call to Redis; a refusal counts as a poll. It may set headers of the
	// response. Nil: nothing is refused from memory.
	RefusalFromMemory func(http.ResponseWriter, *Request) error
	// Handler serves the requests that have passed all checks.
	Handler Handler

	params []string
}

// Cost says in words what a read asks of the stores. It is declared for people who plan capacity or
// look for the weakest route.
type Cost struct {
	// Reads is what is read for a request that no cache answers.
	Reads string
	// Cached is how long what was read is used; "" if it is not.
	Cached string
}

// Limit is the kind of rate limit for which the requests of a route count.
type Limit string

// Polls are counted in this process only, mutations and sign-ins in Redis.
const (
	LimitPolls     Limit = "polls"
	LimitMutations Limit = "mutations"
	LimitSignIns   Limit = "sign-ins"
)

// Limit returns the rate limit of the route.
func (r *Route) Limit() Limit {
	switch {
	case r.SignsIn:
		return LimitSignIns
	case r.Mutates() && !r.Poll || r.Costly:
		return LimitMutations
	default:
		return LimitPolls
	}
}

// Header is a request header of a route.
type Header struct {
	Name, Description string
	Required          bool
}

// JSONBody declares a JSON body that is parsed into a new message of the type of m.
func JSONBody(m proto.Message) Body {
	return Body{JSON: true, Message: func() proto.Message { return m.ProtoReflect().New().Interface() }}
}

// RequiredBody declares a required JSON body like JSONBody, although no rule of m requires it.
func RequiredBody(m proto.Message) Body {
	b := JSONBody(m)
	b.Required = true
	return b
}

// Handler serves a request that has passed all checks. If it returns an error, the error becomes
// the response, so it must not have written anything before.
type Handler func(w http.ResponseWriter, r *http.Request, q *Request) error

// Mutates reports whether the route's method is one that changes something (RFC 9110 §9.2.1).
func (r *Route) Mutates() bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}

// Audited reports whether requests of the route are operators' acts, which are recorded before they
// are forwarded. That is so for all mutating routes of operators, so that none can be forgotten.
func (r *Route) Audited() bool {
	return r.Access == Admin && (r.Mutates() || r.Personal != nil && *r.Personal)
}

// servesUnready reports whether the route is served even before the states of the waiting rooms are
// known. Pages without an event and operators' routes are.
func (r *Route) servesUnready() bool { return r.Page && r.Event == None || r.Access == Admin }

// Params returns the names of the parameters in the pattern, in order.
func (r *Route) Params() []string { return r.params }

func (r *Route) String() string { return r.Method + " " + r.Pattern }

// parsePattern sets the parameters of the pattern, and fails for a route whose fields contradict each
// other.
func (r *Route) parsePattern() error {
	if !strings.HasPrefix(r.Pattern, "/") || r.ID == "" || r.Method == "" {
		return fmt.Errorf("route %q %s: needs an id, a method and a path", r.ID, r)
	}
	r.params = nil
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	for seg := range strings.SplitSeq(r.Pattern[1:], "/") {
		if name, ok := parameterName(seg); ok {
			r.params = append(r.params, name)
		} else if strings.ContainsAny(seg, "{}*:") {
			return fmt.Errorf("route %s: %q is no segment that can be matched", r, seg)
		}
	}
	if len(r.params) > maxParams {
		return fmt.Errorf("route %s: more than %d parameters", r, maxParams)
	}
	if !slices.Contains([]Access{Public, Visitor, User, Entry, Staff, Admin}, r.Access) {
		return fmt.Errorf("route %s: does not say who may use it (%q)", r, r.Access)
	}
	if r.ServedWithoutKafka && !r.Audited() || r.Irreversible != nil && !r.ServedWithoutKafka {
		return fmt.Errorf("route %s: ServedWithoutKafka is for operators' acts, Irreversible for routes with it", r)
	}
	if r.Stream && (r.FastPath || r.Mutates()) {
		return fmt.Errorf("route %s: a stream is a GET outside the fast path", r)
	}
	if r.Access == Admin && r.Method == http.MethodGet && r.Personal == nil {
		return fmt.Errorf("route %s: does not say whether it shows personal data (personal in the option urr.common.v1.edge)", r)
	}
	return r.checkEvent()
}

func (r *Route) checkEvent() error {
	switch r.Event {
	case None:
		if r.Access == Entry {
			return fmt.Errorf("route %s: an entry token is of an event, but none is named", r)
		}
	case FromPath:
		if !slices.Contains(r.params, paramEvent) {
			return fmt.Errorf("route %s: no {%s} in the path", r, paramEvent)
		}
	case FromBody:
		if r.Body.Message == nil {
			return fmt.Errorf("route %s: no message to read the event from", r)
		}
		if _, ok := r.Body.Message().(eventMessage); !ok {
			return fmt.Errorf("route %s: the message has no event", r)
		}
	case FromToken:
		if r.Access != Entry {
			return fmt.Errorf("route %s: only an entry route has a token to take the event from", r)
		}
	default:
		return fmt.Errorf("route %s: unknown source of the event %q", r, r.Event)
	}
	return nil
}

type eventMessage interface {
	proto.Message
	GetEventId() string
}

func parameterName(seg string) (string, bool) {
	if len(seg) > 2 && seg[0] == '{' && seg[len(seg)-1] == '}' {
		return seg[1 : len(seg)-1], true
	}
	return "", false
}
