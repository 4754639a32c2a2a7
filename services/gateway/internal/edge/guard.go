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

// EpochVerdict is what the gateway knows about the epoch of an entry token.
type EpochVerdict int

// What the gateway can say about the epoch of an entry token.
const (
	Honoured EpochVerdict = iota // the epoch is current
	Refused                      // the line has moved to another epoch
	Unsure                       // only the queue service knows
)

// Rooms knows the rounds of events' waiting rooms (tier 1), and which of these rooms are active.
type Rooms interface {
	// LatestRound returns the latest known round of the waiting room of an event, 0 for none, and whether
	// it is active.
	LatestRound(event string) (round int64, active bool)
	// Settle waits until it is certain whether the event has an active room. It fails if that remains
	// uncertain.
	Settle(ctx context.Context, event string) error
	// Ready reports whether the states of the rooms are known. Before, every room seems inactive.
	Ready() bool
}

// Lines knows the epochs of the waiting lines (tier 2).
type Lines interface {
	Verdict(event string, epoch int64) EpochVerdict
}

// Slots asks the queue service whether slots still exist.
type Slots interface {
	// Active reports whether a slot still exists; an error means that this is unknown.
	Active(ctx context.Context, event, user, slot string, epoch int64) (bool, error)
}

// Guard checks that a request has what its route requires. It is safe for concurrent use.
type Guard struct {
	Tokens *identity.Verifier
	Rooms  Rooms
	Lines  Lines
	Slots  Slots
	// VerifyMutations makes the Guard ask the queue service about the slot of every mutating request:
	// a revoked slot then ends at once.
	VerifyMutations bool
}

// Check returns the error with which a request is refused, nil for none. Its metadata "redirectTo"
// is the page that gives what is missing. The checks have a fixed order: identity, event, waiting
// room (tier 1), entry token (tier 2), and last the slot, which needs a call.
func (g *Guard) Check(ctx context.Context, q *Request) error {
	if !q.Route.servesUnready() && !g.Rooms.Ready() {
		return errs.ErrUnavailable
	}
	if err := g.checkCaller(q); err != nil {
		return err
	}
	if q.Route.Event == None {
		return nil // such as the waiting rooms, operators' routes, a user's own data
	}
	if err := g.findEvent(q); err != nil {
		return err
	}
	if err := g.checkRoom(ctx, q); err != nil {
		return err
	}
	if q.Route.Access != Entry {
		return nil
	}
	return g.checkSlot(ctx, q)
}

// checkCaller checks that there is a visitor, or a session with a required role. On routes that
// require an entry token, checkSlot checks that there is a session.
func (g *Guard) checkCaller(q *Request) error {
	switch q.Route.Access {
	case Visitor:
		if q.VisitorID == "" && !q.Route.IssuesVisitorID {
			return errs.ErrVisitorRequired
		}
	case User:
		return q.SessionErr
	case Staff:
		return requireRole(q, "staff", "admin")
	case Admin:
		return requireRole(q, "admin")
	case Public, Entry:
	}
	return nil
}

func requireRole(q *Request, anyOf ...string) error {
	if q.SessionErr != nil {
		return q.SessionErr
	}
	if slices.ContainsFunc(anyOf, func(r string) bool { return slices.Contains(q.Session.Roles, r) }) {
		return nil
	}
	return errs.ErrRoleRequired.With("role", anyOf[0])
}

// findEvent sets the event of a request, and the user's entry tokens for this event.
func (g *Guard) findEvent(q *Request) error {
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
		tokens := g.Tokens.EntryTokens(q.Header, "", q.User())
		entry := cmp.Or(CurrentEntry(g.Lines, tokens[0]), CurrentEntry(g.Lines, tokens[1]), tokens[0], tokens[1])
		if entry == nil {
			return tokenRequiredError(q, "/")
		}
		q.Event = entry.EventID
	case None:
	}
	tokens := g.Tokens.EntryTokens(q.Header, q.Event, q.User())
	q.Entry, q.secondEntry = CurrentEntry(g.Lines, tokens[0]), CurrentEntry(g.Lines, tokens[1])
	if q.Entry == nil {
		q.Entry, q.secondEntry = q.secondEntry, nil
	}
	return nil
}

// CurrentEntry returns the entry token e, or nil if its line has moved to another epoch.
func CurrentEntry(lines Lines, e *claims.Entry) *claims.Entry {
	if e == nil || lines.Verdict(e.EventID, e.Epoch) == Refused {
		return nil
	}
	return e
}

// checkRoom requires, while the event's waiting room is active, a tier-1 token of the active or a
// later round. An entry token suffices too, so that a buyer whose tier-1 token expires can go on.
// That there is no room must be certain, except for pages, which admit nobody.
func (g *Guard) checkRoom(ctx context.Context, q *Request) error {
	if q.Entry != nil {
		return nil
	}
	if !q.Route.Page {
		if err := g.Rooms.Settle(ctx, q.Event); err != nil {
			return err
		}
	}
	round, active := g.Rooms.LatestRound(q.Event)
	if !active {
		return nil
	}
	if t := g.Tokens.Tier1Token(q.Header, q.Event, q.VisitorID, q.User()); t != nil && t.Round >= round {
		return nil
	}
	return errs.ErrVWRTokenRequired.With("redirectTo", "/vwr/"+q.Event)
}

// checkSlot requires an entry token. It asks the queue service whether the slot still exists if the
// request changes something, or if the gateway does not know the epoch of the line.
func (g *Guard) checkSlot(ctx context.Context, q *Request) error {
	if q.Entry == nil {
		return tokenRequiredError(q, "/queue/"+q.Event)
	}
	err := g.verifySlot(ctx, q, q.Entry)
	if errors.Is(err, errs.ErrSlotEnded) && q.secondEntry != nil && q.secondEntry.SlotID != q.Entry.SlotID {
		// The request has two tokens, from two tabs: one of a slot that has ended, one of a new slot.
		q.Entry = q.secondEntry
		err = g.verifySlot(ctx, q, q.Entry)
	}
	return err
}

// tokenRequiredError returns the error of a request without an entry token. Such a token belongs to
// a user, so a call without a session gets the error of the session. A page redirects to the line.
func tokenRequiredError(q *Request, redirectTo string) error {
	if q.SessionErr != nil && !q.Route.Page {
		return q.SessionErr
	}
	return errs.ErrQueueTokenRequired.With("redirectTo", redirectTo)
}

func (g *Guard) verifySlot(ctx context.Context, q *Request, e *claims.Entry) error {
	if !(q.Route.Mutates() && g.VerifyMutations) && g.Lines.Verdict(e.EventID, e.Epoch) != Unsure {
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
