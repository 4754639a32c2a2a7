package edge

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/services/gateway/internal/identity"
)

// Verdict is what the gateway knows about the epoch of an entry token.
type Verdict int

// The verdicts.
const (
	// Honoured: the epoch is current.
	Honoured Verdict = iota
	// Refused: the line has moved to another epoch.
	Refused
	// Unsure: only queue knows.
	Unsure
)

// Rooms knows which events' waiting rooms are active.
type Rooms interface {
	// Round returns the active round of the waiting room of an event, 0 when none is active.
	Round(event string) int64
	// Ready reports whether the state has arrived: before, no room seems active.
	Ready() bool
}

// Lines knows the epochs of the waiting lines.
type Lines interface {
	Verdict(event string, epoch int64) Verdict
}

// Slots asks queue about slots.
type Slots interface {
	// Active reports whether a slot still exists; an error means that this is unknown.
	Active(ctx context.Context, event, user, slot string, epoch int64) (bool, error)
}

// Guard enforces what a route requires. It is safe for concurrent use.
type Guard struct {
	Tokens *identity.Verifier
	Rooms  Rooms
	Lines  Lines
	Slots  Slots
	// VerifyMutations makes every mutating request ask queue about its slot, so that a revoked slot
	// ends at once.
	VerifyMutations bool
}

// Check lets a request pass or returns the reason why not; errors that name a page to go to carry
// the metadata "redirectTo". The order is fixed: identity, event, waiting room (tier 1), entry
// token (tier 2), and last the slot, the only check that needs a call.
func (g *Guard) Check(ctx context.Context, q *Request) error {
	if !q.Route.servesUnready() && !g.Rooms.Ready() {
		return errs.ErrUnavailable
	}
	if err := g.who(q); err != nil {
		return err
	}
	if q.Route.Event == None {
		return nil // needs no event: the waiting rooms, operators' routes, a user's own data
	}
	if err := g.event(q); err != nil {
		return err
	}
	if err := g.room(q); err != nil {
		return err
	}
	if q.Route.Who != Entry {
		return nil
	}
	return g.slot(ctx, q)
}

// who checks the session and its roles. The session of an entry route is checked with its entry
// token.
func (g *Guard) who(q *Request) error {
	switch q.Route.Who {
	case Visitor:
		if q.Anon == "" {
			return errs.ErrVisitorRequired
		}
	case User:
		return q.SessionErr
	case Staff:
		return role(q, "staff", "admin")
	case Admin:
		return role(q, "admin")
	case Public, Entry:
	}
	return nil
}

func role(q *Request, anyOf ...string) error {
	if q.SessionErr != nil {
		return q.SessionErr
	}
	for _, r := range anyOf {
		if slices.Contains(q.Session.Roles, r) {
			return nil
		}
	}
	return errs.ErrRoleRequired.With("role", anyOf[0])
}

// event finds the request's event and the entry token for it.
func (g *Guard) event(q *Request) error {
	switch q.Route.Event {
	case FromPath:
		q.Event = q.Param(paramEvent)
	case FromBody:
		m, _ := q.Message.(eventMessage) // the table checks that every such route has one
		if m == nil || !ids.ValidEventID(m.GetEventId()) {
			return errs.ErrInvalidID.WithFields(errs.Field{Path: "eventId", Message: "is not well-formed"})
		}
		q.Event = m.GetEventId()
	case FromToken:
		tokens := g.Tokens.Entries(q.Header, "", q.User())
		named := cmp.Or(g.honoured(tokens[0]), g.honoured(tokens[1]), tokens[0], tokens[1])
		if named == nil {
			return tokenRequired(q, "/")
		}
		q.Event = named.EventID
	case None:
	}
	tokens := g.Tokens.Entries(q.Header, q.Event, q.User())
	q.Entry, q.spare = g.honoured(tokens[0]), g.honoured(tokens[1])
	if q.Entry == nil {
		q.Entry, q.spare = q.spare, nil
	}
	return nil
}

// honoured returns the token, or nil if its line has moved to another epoch.
func (g *Guard) honoured(e *claims.Entry) *claims.Entry {
	if e == nil || g.Lines.Verdict(e.EventID, e.Epoch) == Refused {
		return nil
	}
	return e
}

// room is the check of tier 1: while the waiting room of the event is active, a token of its round
// or an entry token is required. A buyer whose tier-1 token expires in the shop is not sent back.
func (g *Guard) room(q *Request) error {
	q.Round = g.Rooms.Round(q.Event)
	if q.Round == 0 || q.Entry != nil {
		return nil
	}
	if t := g.Tokens.Tier1(q.Header, q.Event, q.Anon, q.User()); t != nil && t.Round == q.Round {
		return nil
	}
	return errs.ErrVWRTokenRequired.With("redirectTo", "/vwr/"+q.Event)
}

// slot is the check of tier 2: the entry token, and the slot where the gateway cannot judge it or
// must ask.
func (g *Guard) slot(ctx context.Context, q *Request) error {
	if q.Entry == nil {
		return tokenRequired(q, "/queue/"+q.Event)
	}
	err := g.verify(ctx, q, q.Entry)
	if errors.Is(err, errs.ErrSlotEnded) && q.spare != nil && q.spare.SlotID != q.Entry.SlotID {
		// One tab holds the token of an ended slot, another tab has a new one.
		q.Entry = q.spare
		err = g.verify(ctx, q, q.Entry)
	}
	return err
}

// tokenRequired refuses a request without an entry token. The token belongs to a user, so a call
// without a session is told to sign in. Pages redirect to the line, which asks for it.
func tokenRequired(q *Request, redirectTo string) error {
	if q.SessionErr != nil && !q.Route.Page {
		return q.SessionErr
	}
	return errs.ErrQueueTokenRequired.With("redirectTo", redirectTo)
}

func (g *Guard) verify(ctx context.Context, q *Request, e *claims.Entry) error {
	ask := q.Route.Mutates() && g.VerifyMutations || g.Lines.Verdict(e.EventID, e.Epoch) == Unsure
	if !ask {
		return nil
	}
	active, err := g.Slots.Active(ctx, e.EventID, e.UserID, e.SlotID, e.Epoch)
	if err != nil {
		return err
	}
	if !active {
		return errs.ErrSlotEnded.With("redirectTo", "/queue/"+e.EventID)
	}
	return nil
}
