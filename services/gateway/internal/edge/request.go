package edge

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/identity"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// Request is what the edge knows about a request: its route, and who is asking as far as that was verified.
type Request struct {
	Match
	// ID is the request's id; a request of the fast path gets one only when something fails.
	ID string
	// Path is the normalised path.
	Path string

	// Session is nil without a valid one; SessionErr then says why.
	Session    *claims.Session
	SessionErr error
	// Anon is the visitor's verified id, "" for none. NewAnon is the cookie to set when this request made it.
	Anon    string
	NewAnon string

	// Event is the request's event once the checks have found it; "" where none is needed.
	Event string
	// Entry is the verified entry token of Event that is the user's; nil without one.
	Entry *claims.Entry
	// spare is another one, which the cookie holds besides the header.
	spare *claims.Entry
	// Round is the active waiting room's round of Event, 0 when none is active.
	Round int64

	// Body is the whole body of a route that takes one, Message what it was parsed into where the route says so.
	Body    []byte
	Message proto.Message
	// BodyErr is what the pass-through's decoder found wrong with Body.
	BodyErr error
	// Refused is what the request was refused with, nil when it was served.
	Refused *errs.Error
	// IdempotencyKey and IfMatch are the request's, as sent.
	IdempotencyKey, IfMatch string
	// Header is the request's.
	Header http.Header
}

// User is the signed-in user's id, "" for none.
func (q *Request) User() string {
	if q.Session == nil {
		return ""
	}
	return q.Session.UserID
}

// Caller is what the services are told about who asks: nothing that was not verified here.
func (q *Request) Caller() *commonv1.Caller {
	c := &commonv1.Caller{AnonId: q.Anon, IdempotencyKey: q.IdempotencyKey, IfMatch: q.IfMatch}
	if q.Session != nil {
		c.UserId, c.Roles = q.Session.UserID, q.Session.Roles
	}
	if q.Entry != nil {
		c.EventId, c.SlotId, c.Epoch = q.Entry.EventID, q.Entry.SlotID, q.Entry.Epoch
	}
	return c
}

// Tier1 is the visitor's standing at tier 1 for an event whose active round is given (0: no waiting room is active).
func (q *Request) Tier1(v *identity.Verifier, event string, round int64) *commonv1.Tier1 {
	if round == 0 {
		return nil
	}
	t := &commonv1.Tier1{Required: true, Round: round}
	if c := v.Tier1(q.Header, event, q.Anon, q.User()); c != nil && c.Round == round {
		t.Position, t.RequestId = c.Position, c.RequestID
	}
	return t
}

type requestKey struct{}

// WithRequest returns a context that carries q.
func WithRequest(ctx context.Context, q *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, q)
}

// RequestFrom returns the context's Request, nil when it has none.
func RequestFrom(ctx context.Context) *Request {
	q, _ := ctx.Value(requestKey{}).(*Request)
	return q
}
