package line

import "time"

// Caller is who asks for a place: a signed-in user, with the standing at tier 1.
type Caller struct {
	UserID string
	Tier1  Tier1
}

// Tier1 is the visitor's standing in the event's virtual waiting room.
type Tier1 struct {
	// Required: a newcomer needs a position.
	Required bool
	// Round is the start of the position's round in µs, and Position counts from 1; 0 without a valid token.
	Round, Position int64
}

// Entry is what a verified entry token says. Times are epoch milliseconds.
type Entry struct {
	SlotID         string
	Epoch          int64
	End, ExpiresAt int64
}

// Request is one visitor asking for the place in one event's line.
type Request struct {
	EventID string
	Caller  Caller
	// Ticket is the signed queue ticket as the page sent it back, "" without one.
	Ticket string
	// Entry is nil without a valid token of this event and user.
	Entry *Entry
}

// Statuses of a Place.
const (
	StatusQueued = "queued"
	StatusActive = "active"
	StatusNone   = "none"
)

// Place is what a visitor is told.
type Place struct {
	Status string
	// Position counts from 1; 0 inside. Ahead and Behind are people.
	Position, Ahead, Behind int64
	// EstimatedWait and NextPoll are seconds.
	EstimatedWait, NextPoll int64
	// Active is how many hold slots, Threshold how many may, QueueSize how many wait.
	Active, Threshold, QueueSize int64
	// Title and Artist are empty while they are not known.
	Title, Artist string
	// EntryToken is set when the holder's own is missing or has less than 30 s to live.
	EntryToken string
	// ExpiresAt is the slot's end in epoch milliseconds; 0 outside.
	ExpiresAt int64
	// Sale is where the event's sale stands.
	Sale SaleStatus
	// Ticket is set while waiting.
	Ticket string
}

// Answer is a Place or the reason why there is none.
type Answer struct {
	Place Place
	Err   error
}

// Ticket is what a signed queue ticket says: its holder waited with this score in that epoch. It gives the place back after a loss.
type Ticket struct {
	Score int64 // µs
	Epoch int64 // µs
	// IssuedAt is Redis's time in epoch milliseconds.
	IssuedAt int64
}

// Memory is what a replica remembers of a line and tells the store with every call, so that a Redis that lost data is found out and
// the line's settings outlive it. The zero value remembers nothing.
type Memory struct {
	Epoch, Rev int64
	// Alive is Redis's time at the line's last answer, SettingsAt when its settings were read; epoch milliseconds, 0 = never.
	Alive, SettingsAt int64
	Threshold         int64
	Paused            bool
	SlotMS, ClosesAt  int64
	// Sale is ticket's last word that this replica has heard of.
	Sale Sale
}

// State is what the store says of a line with every answer. The zero value is a line that does not exist.
type State struct {
	Epoch, Rev int64
	// Now is Redis's time, PauseUntil the end of the recovery, both epoch milliseconds.
	Now, PauseUntil int64
	// Fresh: this call began the epoch.
	Fresh bool
	// Waiting in the queue, Active inside, Old inside in the epoch that ended and not heard of since, Parked with a place to come back to.
	Waiting, Active, Old, Parked int64
	Threshold                    int64
	// Paused by an operator.
	Paused bool
	// SettingsAt is when the settings were read (0: not yet, nobody is admitted), SlotMS a slot's length, ClosesAt the sale's end (0: none).
	SettingsAt, SlotMS, ClosesAt int64
	// Admitted is how many got a slot, Arrived how many came with a position of the latest tier-1 round.
	Admitted, Arrived int64
	// Prev is the epoch before this one, whose holders are taken over while the line recovers; 0 =
	// not known.
	Prev int64
	// Sale is the last word that any replica has told the line.
	Sale Sale
}

// Exists reports whether there is such a line.
func (s State) Exists() bool { return s.Epoch > 0 }

// Recovering reports whether the line recovers from a loss: holders of the last epoch's tokens may still be taken over.
func (s State) Recovering() bool { return s.Now < s.PauseUntil }

// Honours reports whether a token of an epoch counts: of the present one, or, while the line
// recovers, of the last.
func (s State) Honours(epoch int64) bool {
	return epoch == s.Epoch || s.Recovering() && epoch >= s.Prev && epoch < s.Epoch
}

// SaleStatus is where the sale stands.
func (s State) SaleStatus() SaleStatus { return s.Sale.Stands(s.Now) }

// Admitting reports whether free slots are being given out.
func (s State) Admitting() bool {
	return s.Exists() && !s.Paused && s.SettingsAt > 0 && !s.Recovering() && s.SaleStatus().Sells()
}

// Claim is one visitor's request as the store needs it.
type Claim struct {
	UserID string
	// Join enqueues a newcomer; without it nobody is newly enqueued.
	Join bool
	// Begin lets the call begin a line that is not there and that nobody remembers: the event is known to exist. A genuine ticket or
	// token does so too, since there must have been a line that gave it out.
	Begin  bool
	Tier1  Tier1
	Ticket *Ticket
	Entry  *Entry
}

// Standing is where the store found, or put, a visitor.
type Standing int

// The standings. Nowhere: in no set.
const (
	Nowhere Standing = iota
	Waiting
	Inside
	// PassTaken: another user joined with the tier-1 position. PassMissing: a position is needed and there is none.
	PassTaken
	PassMissing
	// Blocked by an operator.
	Blocked
)

// Outcome is the store's answer to a Claim.
type Outcome struct {
	Standing Standing
	// Ahead and Score (µs) while waiting.
	Ahead, Score int64
	// SlotID and End (epoch ms) inside; Claimed when this call is the first that the holder hears of the slot, Entered when it gave it.
	SlotID  string
	End     int64
	Claimed bool
	Entered bool
}

// MemberQuery asks for what the store has on one visitor of a line without deciding anything: Holder of a
// slot, else waiting.
type MemberQuery struct {
	UserID string
	Holder bool
}

// MemberState is what a MemberQuery found.
type MemberState struct {
	Found bool
	// A waiter's place.
	Ahead, Score int64
	// Poll is the poll (s) that a waiter was last advised, LastSeen the last contact (epoch ms).
	Poll, LastSeen int64
	// A holder's slot.
	SlotID string
	End    int64
}

// LastSeenUpdate notes a contact. It changes nothing when the visitor is gone meanwhile.
type LastSeenUpdate struct {
	UserID string
	Holder bool
	// At is epoch milliseconds, Poll the advised poll (s) of a waiter.
	At, Poll int64
}

// Hold is a reservation's hold of seats, made in a slot.
type Hold struct {
	UserID, SlotID, ReservationID string
	// Until is when the hold ends; zero when it has ended before its time.
	Until time.Time
}

// Tick is what one call of admission did.
type Tick struct {
	Admitted, Parked int64
	// More: there is more to do at once. Silent: nobody is heard of, so nothing was decided.
	More, Silent bool
	// Kept is how many slots are kept for those who are late.
	Kept int64
}

// Settings are a line's durable settings. Nil and zero values: the default, or none.
type Settings struct {
	Threshold *int64
	Slot      time.Duration
	ClosesAt  time.Time
	Paused    bool
	Blocked   []string
	// Closed: the sale has ended, as ticket says.
	Closed bool
	// NeverOpened: the line was never opened, so one that begins has lost nothing.
	NeverOpened bool
}

// Info is what pages show of an event.
type Info struct{ Title, Artist string }

// Admission is a claimed slot, for whoever listens outside.
type Admission struct {
	EventID, UserID, EntryToken string
	At                          time.Time
}
