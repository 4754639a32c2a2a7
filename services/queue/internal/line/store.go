package line

import (
	"context"
	"time"
)

// PlaceStore assigns places and slots of a line. Each call is atomic, takes what this replica knows
// of the line and returns its LineState. If there is no line, LineState.Exists is false.
type PlaceStore interface {
	// Check processes the claims in order and returns one outcome for each.
	Check(ctx context.Context, eventID string, known KnownState, claims []PlaceClaim) (LineState, []ClaimOutcome, error)
	// Entitle stores ticket's answers about users' entitlements, and moves waiters between the two
	// sets of the line accordingly. It does not count as contact of the users.
	Entitle(ctx context.Context, eventID string, known KnownState, answers []EntitlementAnswer) (LineState, error)
	// Release ends the slot if it is the user's; with an empty slotID it removes the user's place in
	// the line. It reports whether there was one.
	Release(ctx context.Context, eventID string, known KnownState, userID, slotID string) (LineState, bool, error)
	// Revoke ends whatever slot the user has, and reports whether there was one.
	Revoke(ctx context.Context, eventID string, known KnownState, userID string) (LineState, bool, error)
	// Hold records that the user holds seats until h.Until, and extends the slot, once. If h.Until is
	// zero, it records the end of the hold.
	Hold(ctx context.Context, eventID string, known KnownState, h SeatHold) (LineState, bool, error)
}

// MemberStore reads and updates the data of single visitors in a line.
type MemberStore interface {
	// LookUp returns one state per query, in order, in one round trip.
	LookUp(ctx context.Context, eventID string, queries []MemberQuery) ([]MemberState, error)
	UpdateLastSeen(ctx context.Context, eventID string, updates []LastSeenUpdate) error
}

// LineStore has the calls that concern a line as a whole.
type LineStore interface {
	Peek(ctx context.Context, eventID string, known KnownState) (LineState, error)
	// Open creates a line without a recovery pause, or ends the pause of a line that was created a
	// moment ago and is not used yet. If known shows that the line existed before, it recovers all the
	// same. The caller must know that the line was never opened before.
	Open(ctx context.Context, eventID string, known KnownState) (LineState, error)
	// ApplySettings stores settings read at readAt (the line's time in epoch ms before the read began)
	// unless the line has later ones.
	ApplySettings(ctx context.Context, eventID string, known KnownState, s Settings, readAt int64) (LineState, error)
	// Act applies a change that ticket does not have yet. It returns the order number of the change,
	// above those of all earlier acts and above c.Act. It fails with errs.ErrTooManyBlocked.
	Act(ctx context.Context, eventID string, known KnownState, c SettingsChange) (s LineState, act int64, err error)
	// UpdatePendingActs removes acts that ticket has stored or refused, adds lost ones again unless the
	// line has a later act on the setting, and returns the acts that are then pending.
	UpdatePendingActs(ctx context.Context, eventID string, known KnownState, decided, lost []SettingsChange) (LineState, []SettingsChange, error)
	// Block blocks users besides those who are blocked already, until the next ApplySettings.
	Block(ctx context.Context, eventID string, known KnownState, users []string) (LineState, error)
}

// MaintenanceStore has the calls that workers make periodically: ticks and cleanups of a line.
type MaintenanceStore interface {
	Admit(ctx context.Context, eventID string, known KnownState) (LineState, AdmissionResult, error)
	// Clean parks or removes some visitors without contact; more means that others remain.
	Clean(ctx context.Context, eventID string, known KnownState) (s LineState, moved int64, more bool, err error)
}

// EventRegistry lists the events that had contact at any replica. It is not atomic with the lines.
type EventRegistry interface {
	ListEvents(ctx context.Context) ([]string, error)
	AddEvents(ctx context.Context, eventIDs ...string) error
	RemoveEvent(ctx context.Context, eventID string) error
}

// Store combines all store interfaces.
type Store interface {
	PlaceStore
	MemberStore
	LineStore
	MaintenanceStore
	EventRegistry
	Schedule
}

// Directory reads from ticket what the line needs to know about events.
type Directory interface {
	TitleAndArtist(ctx context.Context, eventID string) (TitleAndArtist, error)
	// Exists returns nil when the event exists, on sale or only with line settings, else
	// ErrEventUnknown.
	Exists(ctx context.Context, eventID string) error
	DurableSettings
}

// DurableSettings reads and writes the settings of lines that ticket stores.
type DurableSettings interface {
	// Settings returns the settings of an event's line, with defaults where nothing was set. It
	// fails with ErrEventUnknown when there is no such event.
	Settings(ctx context.Context, eventID string) (Settings, error)
	// ChangeSettings has ticket store a setting, unless ticket has this act or a later one on the
	// setting. laterAct is the number of a later act, else 0. It accepts ids of unknown events.
	ChangeSettings(ctx context.Context, eventID string, c SettingsChange) (laterAct int64, err error)
	// MarkOpened records that the line was opened, and reports whether this call was the first to
	// do so. After an error, the line may have been recorded as opened.
	MarkOpened(ctx context.Context, eventID string) (first bool, err error)
}

// Sealer signs tickets and tokens, and verifies tickets.
type Sealer interface {
	SealTicket(eventID, userID string, t Ticket) string
	// OpenTicket returns the content of a queue ticket; false if it is not valid for this user and event.
	OpenTicket(eventID, userID, sealed string) (Ticket, bool)
	// SignEntryToken signs the token of a slot that ends at end (epoch ms).
	SignEntryToken(eventID, userID, slotID string, epoch, end int64, now time.Time) (string, error)
}

// Announcer publishes which visitors got a slot. It never blocks and never fails a visitor's call.
type Announcer interface {
	Announce(a Admission)
}

// Meter exports the figures of lines as metrics.
type Meter interface {
	// SetFigures sets a line's figures after a tick.
	SetFigures(eventID string, f Figures)
	// RecordTickFailure records that a tick failed, so that the line's figures are unknown.
	RecordTickFailure(eventID string)
	AddAdmissions(eventID string, n int64)
	ForgetLine(eventID string)
	// AddEntitlementAnswers counts ticket's answers; entitled is nil if ticket did not answer.
	AddEntitlementAnswers(entitled []bool, asked int)
}

// Figures are the exported figures of a line.
type Figures struct {
	// Active includes holders of the ended epoch; Kept counts the slots kept for late visitors.
	// WaitingGeneral are those of Waiting who may enter only when the general sale opens.
	Waiting, WaitingGeneral, Active, Kept, Threshold int64
	Epoch                                            int64 // the epoch's start in µs
	Pending                                          int64 // acts that ticket does not have yet
	// Selling means that the sale allows admission, Paused that an operator paused the line, Silent
	// that no visitor has contact, Away that ticket does not answer.
	Selling, Paused, Silent, Away bool
}
