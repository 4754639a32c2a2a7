package line

import (
	"context"
	"time"
)

// PlaceStore assigns places and slots of a line. Each call is atomic. Its argument known is what
// this replica knows of the line. It returns the line's state; Exists is false without a line.
type PlaceStore interface {
	// Check processes the claims in order and returns one outcome for each.
	Check(ctx context.Context, eventID string, known KnownState, claims []PlaceClaim) (LineState, []ClaimOutcome, error)
	// Entitle stores the answers about users' entitlements, and moves waiters between the two sets of
	// the line accordingly. It does not count as a contact of the users.
	Entitle(ctx context.Context, eventID string, known KnownState, answers []EntitlementAnswer) (LineState, error)
	// Release ends the slot if it is the user's. With an empty slotID it removes the user's place in
	// the line. It reports whether it has ended or removed one.
	Release(ctx context.Context, eventID string, known KnownState, userID, slotID string) (LineState, bool, error)
	// Revoke ends the user's slot, whatever its id, and reports whether there was one.
	Revoke(ctx context.Context, eventID string, known KnownState, userID string) (LineState, bool, error)
	// Hold records that the user holds seats until h.Until, and extends the slot, only once. If
	// h.Until is zero, it records the end of the hold.
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
	// Open creates a line without a recovery pause, or ends the pause of a line that was just created
	// and is not used yet. If known shows that the line existed before, the line recovers all the
	// same. The caller must know that the line was never opened before.
	Open(ctx context.Context, eventID string, known KnownState) (LineState, error)
	// ApplySettings stores settings unless the line has later ones. readAt is the line's time (epoch
	// ms) before the settings were read.
	ApplySettings(ctx context.Context, eventID string, known KnownState, s Settings, readAt int64) (LineState, error)
	// Act applies a change that is to be stored by the ticket service. It returns the change's order
	// number, above those of all earlier acts and above c.Act, or errs.ErrTooManyBlocked.
	Act(ctx context.Context, eventID string, known KnownState, c SettingsChange) (s LineState, act int64, err error)
	// UpdatePendingActs removes decided acts, and adds lost ones again unless the line has a later act
	// on the setting. It returns the acts that are then pending.
	UpdatePendingActs(ctx context.Context, eventID string, known KnownState, decided, lost []SettingsChange) (LineState, []SettingsChange, error)
	// Block blocks more users in addition to those already blocked, until the next ApplySettings.
	Block(ctx context.Context, eventID string, known KnownState, users []string) (LineState, error)
}

// MaintenanceStore has the calls that workers make periodically: ticks and cleanups of a line.
type MaintenanceStore interface {
	Admit(ctx context.Context, eventID string, known KnownState) (LineState, AdmissionResult, error)
	// Clean parks or removes some visitors without contact. more means that such visitors remain.
	Clean(ctx context.Context, eventID string, known KnownState) (s LineState, moved int64, more bool, err error)
}

// EventRegistry lists the events with contact at any replica. It may differ briefly from the lines.
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

// Directory reads data of events from the ticket service.
type Directory interface {
	TitleAndArtist(ctx context.Context, eventID string) (TitleAndArtist, error)
	// Exists returns nil if the event exists, with a sale or only with settings of a line, else
	// ErrEventUnknown.
	Exists(ctx context.Context, eventID string) error
	DurableSettings
}

// DurableSettings reads and writes the settings of lines, which the ticket service stores.
type DurableSettings interface {
	// Settings returns the settings of an event's line, and defaults for settings that were never set.
	// It fails with ErrEventUnknown if there is no such event.
	Settings(ctx context.Context, eventID string) (Settings, error)
	// ChangeSettings has the ticket service store a setting, unless it has this act or a later one on
	// the setting. laterAct is the number of a later act, else 0. Ids of unknown events are accepted.
	ChangeSettings(ctx context.Context, eventID string, c SettingsChange) (laterAct int64, err error)
	// MarkOpened records that the line was opened, and reports whether this is the first such call.
	// After an error, the line may have been recorded as opened.
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

// Announcer publishes which visitors got a slot. It neither blocks nor fails a visitor's call.
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
	// AddEntitlementAnswers counts answers about asked visitors; entitled is nil if none came.
	AddEntitlementAnswers(entitled []bool, asked int)
}

// Figures are the exported figures of a line.
type Figures struct {
	// Active includes slot holders of the ended epoch. Kept counts the slots kept for late visitors.
	// WaitingGeneral counts those of Waiting who may enter only when the general sale opens.
	Waiting, WaitingGeneral, Active, Kept, Threshold int64
	Epoch                                            int64 // the epoch's start in µs
	Pending                                          int64 // acts that are not stored yet
	// Selling means that the sale allows admission. Paused means that an operator has paused the line.
	// Silent means that no visitor has contact, Away that the ticket service does not answer.
	Selling, Paused, Silent, Away bool
}
