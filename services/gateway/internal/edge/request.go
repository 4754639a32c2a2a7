package edge

import (
	"context"
	"net/http"
	"net/netip"

	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/identity"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
)

// Request has the route of a request and the verified identity of its caller.
type Request struct {
	Match
	// ID is the request id. On the fast path it is set only when something fails.
	ID string
	// Path is the path of the URL as CleanPath returns it.
	Path string

	// Session is nil without a valid session; SessionErr then says why.
	Session    *claims.Session
	SessionErr error
	// Visitor is the verified cookie of the visitor, the zero value without one.
	Visitor claims.Anon
	// VisitorID is the id of the visitor, "" for none. It is the id in the cookie, or the visitor's
	// former id if the request shows a position that the former id got.
	VisitorID string
	// Owes is the difficulty, in zero bits, of the proof of work that the visitor must do to get a new
	// position in a waiting room.
	Owes int
	// Address is the IP address of the client.
	Address netip.Addr

	// Event is set by Guard.Check; "" on routes that need no event.
	Event string
	// Entry is the verified entry token of the user for Event; nil without one.
	Entry *claims.Entry
	// secondEntry is another valid token for Event: header and cookie may contain different ones.
	secondEntry *claims.Entry

	// Body is the whole body, on routes that read one. Message is the parsed body, on routes that
	// declare a message.
	Body    []byte
	Message proto.Message
	// Upload is the body of a route that streams it. The handler sets Entries to what it has changed.
	Upload  *Upload
	Entries *eventsv1.EntryCounts
	// BodyErr is the error of decoding Body on a pass-through route.
	BodyErr error
	// Refused is the error that the request was refused with, nil when it was served.
	Refused *errs.Error
	// IdempotencyKey and IfMatch are the headers as sent.
	IdempotencyKey, IfMatch string
	Header                  http.Header
}

// User returns the id of the signed-in user, "" for none.
func (q *Request) User() string {
	if q.Session == nil {
		return ""
	}
	return q.Session.UserID
}

// EventInPath returns the event id in the path, "" for none.
func (q *Request) EventInPath() string { return q.Param(paramEvent) }

// Caller returns the verified identity of the client, which is passed to the services. It has roles only
// on routes that require one, so that a service gives nobody more for a role anywhere else, where no
// act is recorded.
func (q *Request) Caller() *commonv1.Caller {
	c := &commonv1.Caller{AnonId: q.VisitorID, IdempotencyKey: q.IdempotencyKey, IfMatch: q.IfMatch}
	if q.Session != nil {
		c.UserId, c.Email, c.Claims = q.Session.UserID, q.Session.Email, q.Session.Claims
		if q.Route.Access == Staff || q.Route.Access == Admin {
			c.Roles = q.Session.Roles
		}
	}
	if q.Entry != nil {
		c.EventId, c.SlotId, c.Epoch = q.Entry.EventID, q.Entry.SlotID, q.Entry.Epoch
	}
	return c
}

// Tier1 returns the visitor's position in the waiting room of an event, and whether a position is
// required (roomActive); nil if there is none and none is required. latestRound is the latest round
// that this gateway knows, 0 for none. A position of that round counts even after the round's end,
// so that visitors who have waited keep their order. A position of a later round counts too, since
// this gateway may not know that round yet.
func (q *Request) Tier1(v *identity.Verifier, event string, latestRound int64, roomActive bool) *commonv1.Tier1 {
	if c := v.Tier1Token(q.Header, event, q.VisitorID, q.User()); c != nil && c.Round >= latestRound {
		return &commonv1.Tier1{Required: roomActive, Round: c.Round, Position: c.Position, RequestId: c.RequestID}
	}
	if !roomActive {
		return nil
	}
	return &commonv1.Tier1{Required: true, Round: latestRound}
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
