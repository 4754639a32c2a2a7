package line

import (
	"context"
	"time"
)

// Places decides who stands where: each call is one atomic step in the store, told what this replica remembers of the line and answered
// with its state. A State that does not exist means that there is no such line, and that none was begun.
type Places interface {
	// Check answers claims of one event in order, one outcome each.
	Check(ctx context.Context, eventID string, m Memory, claims []Claim) (State, []Outcome, error)
	// Release ends the slot if it is the user's; an empty id takes the waiting place.
	Release(ctx context.Context, eventID string, m Memory, userID, slotID string) (State, bool, error)
	// Hold notes that seats are held in the slot until then, and extends it once; or that they are
	// not held any more.
	Hold(ctx context.Context, eventID string, m Memory, h Hold) (State, bool, error)
}

// Members reads a line without deciding.
type Members interface {
	// LookUp answers by position, in one round trip.
	LookUp(ctx context.Context, eventID string, queries []MemberQuery) ([]MemberState, error)
	UpdateLastSeen(ctx context.Context, eventID string, updates []LastSeenUpdate) error
}

// Lines are the calls about a line as a whole.
type Lines interface {
	Peek(ctx context.Context, eventID string, m Memory) (State, error)
	// Open begins a line without the pause of a lost one, and ends that pause of one that was begun a moment ago and not used yet. A
	// line that somebody remembers recovers all the same. The caller must know that the line was never opened before.
	Open(ctx context.Context, eventID string, m Memory) (State, error)
	// Apply caches settings that were read at readAt (the line's time in epoch ms before the reading began) unless later ones are there.
	Apply(ctx context.Context, eventID string, m Memory, s Settings, readAt int64) (State, error)
}

// Work is what runs once per tick, and now and then.
type Work interface {
	Admit(ctx context.Context, eventID string, m Memory) (State, Tick, error)
	// Clean moves or removes up to a page of those who are long gone; more says that there are others.
	Clean(ctx context.Context, eventID string, m Memory) (s State, moved int64, more bool, err error)
}

// Registry lists the events that some replica has had contact for. It is never atomic with a line.
type Registry interface {
	Events(ctx context.Context) ([]string, error)
	Add(ctx context.Context, eventIDs ...string) error
	Remove(ctx context.Context, eventID string) error
}

// Store is all of it.
type Store interface {
	Places
	Members
	Lines
	Work
	Registry
}

// Directory is what ticket knows of events.
type Directory interface {
	Info(ctx context.Context, eventID string) (Info, error)
	// Exists returns nil when there is such an event, be it on sale or only with settings for its line, else ErrEventUnknown.
	Exists(ctx context.Context, eventID string) error
	DurableSettings
}

// DurableSettings are what ticket keeps of lines.
type DurableSettings interface {
	// Settings of an event's line; the defaults where nothing was set, ErrEventUnknown when there is no such event.
	Settings(ctx context.Context, eventID string) (Settings, error)
	// PutThreshold writes the setting durably.
	PutThreshold(ctx context.Context, eventID string, threshold int64) error
	// MarkOpened records that the line was opened, unless that is recorded already, and reports whether this call did. After an error that
	// is not known.
	MarkOpened(ctx context.Context, eventID string) (first bool, err error)
}

// Sealer signs what leaves, and reads back what only it can have signed.
type Sealer interface {
	Ticket(eventID, userID string, t Ticket) string
	// OpenTicket reports whether the ticket is genuine and this user's for this event.
	OpenTicket(eventID, userID, sealed string) (Ticket, bool)
	// Entry mints the token of a slot that ends at end (epoch ms).
	Entry(eventID, userID, slotID string, epoch, end int64, now time.Time) (string, error)
}

// Announcer tells others of claimed slots. It never blocks and never fails the visitor.
type Announcer interface {
	Announce(a Admission)
}

// Meter counts for operators.
type Meter interface {
	// Line tells a line's numbers, and whether its sale lets it admit.
	Line(eventID string, waiting, active int64, selling bool)
	Admitted(eventID string, n int64)
	// Kept tells how many slots are kept for those who are late.
	Kept(eventID string, n int64)
	Forget(eventID string)
}
