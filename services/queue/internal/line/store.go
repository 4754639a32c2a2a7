package line

import (
	"context"
	"time"
)

// Places decides places and slots. Each call is atomic, gets this replica's KnownState of the line
// and returns its State. If that does not exist, there is no line, and none was created.
type Places interface {
	// Check processes claims of one event in order and returns one outcome each.
	Check(ctx context.Context, eventID string, m KnownState, claims []Claim) (State, []Outcome, error)
	// Release ends the slot if it is the user's; with an empty id it removes the waiting place.
	Release(ctx context.Context, eventID string, m KnownState, userID, slotID string) (State, bool, error)
	// Revoke ends whatever slot the user has, and reports whether there was one.
	Revoke(ctx context.Context, eventID string, m KnownState, userID string) (State, bool, error)
	// Hold records that seats are held until h.Until, and extends the slot once; or the hold's end.
	Hold(ctx context.Context, eventID string, m KnownState, h SeatHold) (State, bool, error)
}

// Members reads and updates members of a line without decisions.
type Members interface {
	// LookUp returns one state per query, in order, in one round trip.
	LookUp(ctx context.Context, eventID string, queries []MemberQuery) ([]MemberState, error)
	UpdateLastSeen(ctx context.Context, eventID string, updates []LastSeenUpdate) error
}

// Lines has the calls on a line as a whole.
type Lines interface {
	Peek(ctx context.Context, eventID string, m KnownState) (State, error)
	// Open creates a line without the recovery pause of a lost one, or ends the pause of a line
	// created a moment ago and not used yet. A line known to a replica recovers all the same. The
	// caller must know that the line was never opened before.
	Open(ctx context.Context, eventID string, m KnownState) (State, error)
	// Apply stores settings read at readAt (the line's time in epoch ms before the read began)
	// unless the line has later ones.
	Apply(ctx context.Context, eventID string, m KnownState, s Settings, readAt int64) (State, error)
	// Act puts a change in force that ticket does not have yet, and returns its order: after all acts
	// before it, and after c.Act. It fails with errs.ErrTooManyBlocked.
	Act(ctx context.Context, eventID string, m KnownState, c SettingsChange) (s State, act int64, err error)
	// SettleActs removes acts that ticket has decided about, restores lost ones, except where the line
	// has a later act, and returns those that are pending then.
	SettleActs(ctx context.Context, eventID string, m KnownState, settled, lost []SettingsChange) (State, []SettingsChange, error)
	// Block blocks users beside those who are blocked already, until the next Apply.
	Block(ctx context.Context, eventID string, m KnownState, users []string) (State, error)
}

// Maintenance has the periodic calls.
type Maintenance interface {
	Admit(ctx context.Context, eventID string, m KnownState) (State, AdmissionResult, error)
	// Clean parks or removes up to a page of members without contact; more means that others remain.
	Clean(ctx context.Context, eventID string, m KnownState) (s State, moved int64, more bool, err error)
}

// Registry lists the events with contact at any replica. It is not atomic with a line.
type Registry interface {
	Events(ctx context.Context) ([]string, error)
	Add(ctx context.Context, eventIDs ...string) error
	Remove(ctx context.Context, eventID string) error
}

// Store combines all store interfaces.
type Store interface {
	Places
	Members
	Lines
	Maintenance
	Registry
	Schedule
}

// Directory reads events from ticket.
type Directory interface {
	TitleAndArtist(ctx context.Context, eventID string) (TitleAndArtist, error)
	// Exists returns nil when the event exists, on sale or only with line settings, else
	// ErrEventUnknown.
	Exists(ctx context.Context, eventID string) error
	DurableSettings
}

// DurableSettings reads and writes the lines' settings stored by ticket.
type DurableSettings interface {
	// Settings returns the settings of an event's line, with defaults where nothing was set. It
	// fails with ErrEventUnknown when there is no such event.
	Settings(ctx context.Context, eventID string) (Settings, error)
	// Change writes settings durably, unless ticket has c.Act or a later act on the setting, which it
	// returns. It accepts ids of unknown events.
	Change(ctx context.Context, eventID string, c SettingsChange) (later int64, err error)
	// MarkOpened records that the line was opened, and reports whether this call was the first to
	// do so. After an error that is unknown.
	MarkOpened(ctx context.Context, eventID string) (first bool, err error)
}

// Sealer signs tickets and tokens, and verifies tickets.
type Sealer interface {
	SealTicket(eventID, userID string, t Ticket) string
	// OpenTicket verifies that the ticket is valid for this user and event.
	OpenTicket(eventID, userID, sealed string) (Ticket, bool)
	// SignEntryToken signs the token of a slot that ends at end (epoch ms).
	SignEntryToken(eventID, userID, slotID string, epoch, end int64, now time.Time) (string, error)
}

// Announcer publishes claimed slots. It never blocks and never fails a visitor's call.
type Announcer interface {
	Announce(a Admission)
}

// Meter exports the figures of lines as metrics.
type Meter interface {
	// SetFigures sets a line's figures after a tick.
	SetFigures(eventID string, f Figures)
	// RecordTickFailure records that a tick failed: the line's figures are not known.
	RecordTickFailure(eventID string)
	AddAdmissions(eventID string, n int64)
	ForgetLine(eventID string)
}

// Figures are the exported figures of a line.
type Figures struct {
	// Active includes holders of the ended epoch; Kept counts the slots kept for late visitors.
	Waiting, Active, Kept, Threshold int64
	Epoch                            int64 // the epoch's start in µs
	Pending                          int64 // acts that ticket does not have yet
	// Selling means that the sale allows admission, Paused that an operator paused the line, Silent
	// that no visitor has contact, Away that ticket does not answer.
	Selling, Paused, Silent, Away bool
}
