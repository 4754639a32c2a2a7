package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
)

const (
	maxParams  = 3
	paramEvent = "event_id"
	// paramAllocation is a reward's id, a decimal number.
	paramAllocation = "allocation_id"
)

// Table finds the route of a request. It is immutable and safe for concurrent use.
type Table struct {
	root   pathNode
	routes []*Route
}

// pathNode is a node of the tree of routes. It stands for the beginning of paths, and has a child
// for each segment that can follow.
type pathNode struct {
	static map[string]*pathNode
	param  *pathNode
	routes []*Route // one per method
}

// Match is the route of a request, with the values of the route's path parameters.
type Match struct {
	Route  *Route
	values [maxParams]string
}

// Param returns the value of a parameter, "" when the pattern has none of that name.
func (m *Match) Param(name string) string {
	for i, p := range m.Route.params {
		if p == name {
			return m.values[i]
		}
	}
	return ""
}

// NewTable makes the table of all routes. It fails if two routes have the same method and path or
// the same id, or if a route contradicts itself, since it would be unclear which checks apply.
func NewTable(routes ...*Route) (*Table, error) {
	t := &Table{}
	declared := map[string]bool{}
	for _, r := range routes {
		if err := r.parsePattern(); err != nil {
			return nil, err
		}
		if declared[r.ID] {
			return nil, fmt.Errorf("route %s: the id %q is there twice", r, r.ID)
		}
		declared[r.ID] = true
		if err := t.add(r); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Table) Routes() []*Route { return t.routes }

func (t *Table) add(r *Route) error {
	n := &t.root
	for seg := range strings.SplitSeq(r.Pattern[1:], "/") {
		if _, ok := parameterName(seg); ok {
			if n.param == nil {
				n.param = &pathNode{}
			}
			n = n.param
			continue
		}
		if n.static == nil {
			n.static = map[string]*pathNode{}
		}
		if n.static[seg] == nil {
			n.static[seg] = &pathNode{}
		}
		n = n.static[seg]
	}
	if other := n.routeFor(r.Method); other != nil {
		return fmt.Errorf("route %s: %s matches the same paths", r, other)
	}
	n.routes = append(n.routes, r)
	t.routes = append(t.routes, r)
	return nil
}

// Match finds the route of a method and a path that CleanPath has returned. HEAD is served by the
// route of GET, and a literal segment takes precedence over a parameter. Match fails with
// errs.ErrNotFound for an unknown path, with errs.ErrMethodNotAllowed (metadata "allow") for
// another method of a known path, and with errs.ErrInvalidID for a malformed parameter. On a page,
// it fails for a malformed parameter with errs.ErrEventNotFound or errs.ErrNotFound.
func (t *Table) Match(method, path string) (Match, error) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var m Match
	if path == "" || path[0] != '/' || !t.root.match(method, path[1:], &m, 0) {
		if allow := t.allowed(path); allow != "" {
			return Match{}, errs.ErrMethodNotAllowed.With("allow", allow)
		}
		return Match{}, errs.ErrNotFound
	}
	for i, name := range m.Route.params {
		if !wellFormed(name, m.values[i]) {
			return Match{}, malformedError(m.Route, name)
		}
	}
	return m, nil
}

// malformedError returns the error for a parameter that cannot be an id. For a page, the error says
// that there is no such page or event.
func malformedError(r *Route, param string) error {
	switch {
	case !r.Page:
		return errs.ErrInvalidID.WithFields(errs.Field{Path: PublicName(param), Message: "is not well-formed"})
	case strings.HasPrefix(r.Pattern, "/events/"):
		return errs.ErrEventNotFound
	default:
		return errs.ErrNotFound
	}
}

// match finds the route for the rest of a path, one segment at a time. It stores the route and the
// values of its parameters in m; depth is how many parameters are before the rest.
func (n *pathNode) match(method, rest string, m *Match, depth int) bool {
	seg, tail, more := strings.Cut(rest, "/")
	if next := n.static[seg]; next != nil && next.matchEnd(method, tail, more, m, depth) {
		return true
	}
	if n.param == nil || seg == "" {
		return false
	}
	if depth < maxParams {
		m.values[depth] = seg
	}
	return n.param.matchEnd(method, tail, more, m, depth+1)
}

func (n *pathNode) matchEnd(method, tail string, more bool, m *Match, depth int) bool {
	if more {
		return n.match(method, tail, m, depth)
	}
	m.Route = n.routeFor(method)
	return m.Route != nil
}

func (n *pathNode) routeFor(method string) *Route {
	for _, r := range n.routes {
		if r.Method == method {
			return r
		}
	}
	return nil
}

// allowed returns the value of the header Allow for a path: its methods, "" for an unknown path.
func (t *Table) allowed(path string) string {
	var methods []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
		var m Match
		if path != "" && path[0] == '/' && t.root.match(method, path[1:], &m, 0) {
			methods = append(methods, method)
		}
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	return strings.Join(methods, ", ")
}

// PublicName returns the name of a parameter in the API documentation: eventId for event_id.
func PublicName(param string) string {
	var b strings.Builder
	for i, part := range strings.Split(param, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	return b.String()
}

// wellFormed reports whether a path parameter has the form of its kind. Ids other than those of events
// and rewards are UUIDs.
func wellFormed(name, value string) bool {
	switch {
	case name == paramEvent:
		return ids.ValidEventID(value)
	case name == paramAllocation:
		return validNumber(value)
	case strings.HasSuffix(name, "_id"):
		return ids.ValidUUID(value)
	default: // a provider or a file, which is only looked up by name
		return len(value) <= 128
	}
}

// validNumber reports whether s is a decimal number of up to 18 digits, which fits 64 bits.
func validNumber(s string) bool {
	return s != "" && len(s) <= 18 && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
