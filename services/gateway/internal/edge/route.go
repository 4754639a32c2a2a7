// Package edge decides what reaches the platform: the table of every route with what it demands, how paths are brought into one form and
// matched, and the checks of the waiting rooms in front of each route. A path that is not in the table does not exist.
package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
)

// Who says who may use a route; the values are those of the option urr.common.v1.edge.
type Who string

// Each names what it demands.
const (
	Public  Who = "public"  // nothing
	Visitor Who = "visitor" // a signed urr-anon
	User    Who = "user"    // a session
	Entry   Who = "entry"   // a session and an entry token of the event that the line still honours
	Staff   Who = "staff"   // a session with the role staff or admin
	Admin   Who = "admin"   // a session with the role admin
)

// Source says where the event of a request stands; None also means that the route is open while its event's waiting room is active.
type Source string

// Sources of the event.
const (
	None      Source = ""
	FromPath  Source = "path"  // the path's event_id
	FromBody  Source = "body"  // the body's eventId
	FromToken Source = "token" // the verified entry token's
)

// DefaultTimeout bounds a request as a whole.
const DefaultTimeout = 5 * time.Second

// Limits of bodies in bytes.
const (
	MaxBody    = 64 << 10
	MaxWebhook = 256 << 10
)

// Body says what a route takes. The zero value takes none: what is sent is not read.
type Body struct {
	// JSON bodies have at most MaxBody bytes and are read strictly (pkg/wire).
	JSON bool
	// Raw bodies are passed on as they came, with at most MaxWebhook bytes.
	Raw bool
	// Message is what the JSON body of a hand-written route is parsed into. Pass-through routes have none: their RPC says it.
	Message func() proto.Message
}

// Route is one method of one path, with everything that is demanded of its requests.
type Route struct {
	// ID names the route in logs and metrics, as "seats.reserve"; pass-through routes have their RPC's name.
	ID      string
	Method  string
	Pattern string // as /api/v1/seats/{event_id}
	Who     Who
	Event   Source
	Body    Body
	// Page routes answer browsers: refusals are redirects.
	Page bool
	// Poll routes change nothing that counts, though their method may: they are limited in process, without Redis.
	Poll bool
	// FastPath routes are answered in front of the general chain: no span, no request id unless something fails.
	FastPath bool
	// Issues routes give a visitor without a urr-anon one.
	Issues bool
	// RPC is the full method that the request passes through to; empty for hand-written routes.
	RPC string
	// Timeout bounds a request outside the fast path; 0 = DefaultTimeout.
	Timeout time.Duration
	// Status is what success answers with; 0 = 200.
	Status int
	// Answer is the message that success answers with, of hand-written routes, where it is one; for the documentation.
	Answer proto.Message
	// Summary is the line of the API's documentation.
	Summary string
	// Headers are those that the route reads besides the credentials that Who demands; for the documentation.
	Headers []Header
	// Handler answers requests that the edge has let pass.
	Handler Handler

	params []string
}

// Header is a request header of a route.
type Header struct {
	Name, Description string
	Required          bool
}

// JSONBody is the body of a hand-written route that is parsed into a message like m.
func JSONBody(m proto.Message) Body {
	return Body{JSON: true, Message: func() proto.Message { return m.ProtoReflect().New().Interface() }}
}

// Handler serves a request that the edge has let pass. An error that it returns becomes a problem document, so it must not have written.
type Handler func(w http.ResponseWriter, r *http.Request, q *Request) error

// Mutates reports whether the route's method is one that changes something (RFC 9110 §9.2.1).
func (r *Route) Mutates() bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}

// servesUnready reports whether the route may be served by a gateway that does not know the waiting rooms yet: pages that are the same for
// everybody, and operators.
func (r *Route) servesUnready() bool { return r.Page && r.Event == None || r.Who == Admin }

// Params are the names in the pattern, in order.
func (r *Route) Params() []string { return r.params }

func (r *Route) String() string { return r.Method + " " + r.Pattern }

// compile reads the pattern and refuses what contradicts itself.
func (r *Route) compile() error {
	if !strings.HasPrefix(r.Pattern, "/") || r.ID == "" || r.Method == "" {
		return fmt.Errorf("route %q %s: needs an id, a method and a path", r.ID, r)
	}
	r.params = nil
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	for seg := range strings.SplitSeq(r.Pattern[1:], "/") {
		name, ok := param(seg)
		if ok {
			r.params = append(r.params, name)
		} else if strings.ContainsAny(seg, "{}*:") {
			return fmt.Errorf("route %s: %q is no segment that can be matched", r, seg)
		}
	}
	if len(r.params) > maxParams {
		return fmt.Errorf("route %s: more than %d parameters", r, maxParams)
	}
	if !slices.Contains([]Who{Public, Visitor, User, Entry, Staff, Admin}, r.Who) {
		return fmt.Errorf("route %s: does not say who may use it (%q)", r, r.Who)
	}
	return r.checkEvent()
}

func (r *Route) checkEvent() error {
	switch r.Event {
	case None:
		if r.Who == Entry {
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
		if r.Who != Entry {
			return fmt.Errorf("route %s: only an entry route has a token to take the event from", r)
		}
	default:
		return fmt.Errorf("route %s: unknown source of the event %q", r, r.Event)
	}
	return nil
}

// eventMessage is a body with an event.
type eventMessage interface {
	proto.Message
	GetEventId() string
}

// param returns the name of a segment in braces.
func param(seg string) (string, bool) {
	if len(seg) > 2 && seg[0] == '{' && seg[len(seg)-1] == '}' {
		return seg[1 : len(seg)-1], true
	}
	return "", false
}
