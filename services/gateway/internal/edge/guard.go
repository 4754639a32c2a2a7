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

// Verdict is what the gateway can say about an entry token's epoch by itself.
type Verdict int

// The verdicts.
const (
	// Honoured: the line stands at the token's epoch.
	Honoured Verdict = iota
	// Refused: the line has gone on to another epoch.
	Refused
	// Unsure: only queue knows.
	Unsure
)

// Rooms knows which events' waiting rooms are active.
type Rooms interface {
	// Round is the active round of an event's waiting room, 0 when none is active.
	Round(event string) int64
	// Ready reports whether that was ever heard: before, every room looks like none.
	Ready() bool
}

// Lines knows the epochs of the waiting lines.
type Lines interface {
	Verdict(event string, epoch int64) Verdict
}

// Slots asks queue.
type Slots interface {
	// Active reports whether a slot still is; an error says that nobody could tell.
	Active(ctx context.Context, event, user, slot string, epoch int64) (bool, error)
}

// Guard applies what a route demands. It is safe for concurrent use.
type Guard struct {
	Tokens *identity.Verifier
	Rooms  Rooms
	Lines  Lines
	Slots  Slots
	// VerifyMutations asks queue about the slot of every request that changes something, so that a revoked one ends at once.
	VerifyMutations bool
}

// Check lets a request pass or says why not; the refusals that lead somewhere carry the metadata "redirectTo". Its order is fixed: who
// asks, then the event, its waiting room (tier 1), the entry token (tier 2), and last the slot, which alone costs a call.
func (g *Guard) Check(ctx context.Context, q *Request) error {
	if !q.Route.servesUnready() && !g.Rooms.Ready() {
		return errs.ErrUnavailable
	}
	if err := g.who(q); err != nil {
		return err
	}
	if q.Route.Event == None {
		return nil // open by declaration: the rooms themselves, operators, what a person owns
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

// who checks the session and its roles. An entry route's session is part of its entry token's check.
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
		m, _ := q.Message.(eventMessage) // the table holds every such route to it
		if m == nil || !ids.Event(m.GetEventId()) {
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

// honoured is the token unless its line has gone on to another epoch.
func (g *Guard) honoured(e *claims.Entry) *claims.Entry {
	if e == nil || g.Lines.Verdict(e.EventID, e.Epoch) == Refused {
		return nil
	}
	return e
}

// room is tier 1: while the event's waiting room is active, a token of its round, or an entry token: a buyer whose tier-1 token ran out
// inside is not sent back.
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

// slot is tier 2: the entry token, and whether its slot still lives where the gateway cannot say or must not guess.
func (g *Guard) slot(ctx context.Context, q *Request) error {
	if q.Entry == nil {
		return tokenRequired(q, "/queue/"+q.Event)
	}
	err := g.verify(ctx, q, q.Entry)
	if errors.Is(err, errs.ErrSlotEnded) && q.spare != nil && q.spare.SlotID != q.Entry.SlotID {
		// One tab still holds the token of a slot that is over, another has brought a new one.
		q.Entry = q.spare
		err = g.verify(ctx, q, q.Entry)
	}
	return err
}

// tokenRequired refuses who has no entry token. The token is a user's, so that calls without a
// session are told to sign in; pages lead to the line, which says so itself.
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
