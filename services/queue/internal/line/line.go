package line

import "time"

// Visitor is the signed-in user who asks for a place, with the user's state in tier 1.
type Visitor struct {
	UserID string
	Tier1  Tier1
}

// Tier1 is the visitor's state in the event's virtual waiting room.
type Tier1 struct {
	Required bool // a newcomer needs a position
	// Round is the start of the position's round in µs, and Position counts from 1; 0 without a
	// valid token.
	Round, Position int64
}

// Entry has the claims of a verified entry token. Times are epoch milliseconds.
type Entry struct {
	SlotID         string
	Epoch          int64
	End, ExpiresAt int64
}

// Request asks for one visitor's place in the line of an event.
type Request struct {
	EventID string
	Visitor Visitor
	Ticket  string // the signed queue ticket sent by the page, "" without one
	Entry   *Entry // nil without a valid token of this event and user
}

// Statuses of a Place.
const (
	StatusQueued = "queued"
	StatusActive = "active"
	StatusNone   = "none"
)

// Place is where a visitor is in a line: the position and the wait, or the slot.
type Place struct {
	Status string
	// Position counts from 1; 0 inside. Ahead and Behind are numbers of people.
	Position, Ahead, Behind int64
	// EstimatedWait and NextPoll are seconds; an EstimatedWait of 0 while waiting is not known.
	EstimatedWait, NextPoll int64
	// Active is the number of slot holders, Threshold its maximum, QueueSize the number of waiters.
	Active, Threshold, QueueSize int64
	// Title and Artist are empty while they are not known.
	Title, Artist string
	EntryToken    string     // set when the request's token is missing or expires within 30 s
	ExpiresAt     int64      // the slot's end in epoch milliseconds; 0 outside
	Sale          SaleStatus // the status of the event's sale
	Paused        bool       // paused by an operator
	Ticket        string     // set while waiting
}

// Answer answers a Request: with a Place, or with an error.
type Answer struct {
	Place Place
	Err   error
}

// Ticket has the content of a signed queue ticket: its holder waited with this score in this epoch.
// It restores the place after a data loss.
type Ticket struct {
	Score    int64 // µs
	Epoch    int64 // µs
	IssuedAt int64 // Redis's time in epoch milliseconds
}

// KnownState is what a replica knows of a line. Every call passes it to the store, to detect that
// Redis lost data and to restore the line's settings. The zero value means that nothing is known.
type KnownState struct {
	Epoch, Rev int64
	// AnsweredAt is Redis's time at the line's last answer, SettingsAt when its settings were read;
	// epoch milliseconds, 0 = never.
	AnsweredAt, SettingsAt int64
	Threshold              int64
	Paused                 bool
	SlotMS, ClosesAt       int64
	Sale                   Sale // the latest sale report known to this replica
}

// State is the line's state, part of every answer of the store; zero for a line that does not exist.
type State struct {
	Epoch, Rev int64
	// Now is Redis's time, PauseUntil the end of the recovery, both epoch milliseconds.
	Now, PauseUntil int64
	Fresh           bool // this call began the epoch
	// Waiting counts the queue, Active the slot holders, Old the slot holders of the ended epoch
	// without contact since, Parked the absent waiters whose places are kept.
	Waiting, Active, Old, Parked int64
	Threshold                    int64
	Paused                       bool // paused by an operator
	// SettingsAt is when the settings were read (0 = not yet, nobody is admitted), SlotMS the slot
	// length, ClosesAt the sale's end (0 = none).
	SettingsAt, SlotMS, ClosesAt int64
	// Admitted is the total number of admissions, Arrived the number of newcomers with a position
	// of the latest tier-1 round.
	Admitted, Arrived int64
	// Prev is the previous epoch, whose holders are taken over during recovery; 0 = unknown.
	Prev int64
	Sale Sale  // the latest sale report that any replica passed to the line
	Lost int64 // by how much outages of ticket have extended slots, in ms
	// Pending is the number of acts of operators that are in force and that ticket does not have yet.
	Pending int64
}

func (s State) Exists() bool { return s.Epoch > 0 }

// Members counts all visitors of the line.
func (s State) Members() int64 { return s.Waiting + s.Active + s.Old + s.Parked }

// Recovering reports whether the line recovers from a data loss: holders of the previous epoch's
// tokens may still be taken over.
func (s State) Recovering() bool { return s.Now < s.PauseUntil }

// AcceptsEpoch reports whether tokens of an epoch are valid: those of the current epoch and, while
// the line recovers, of the previous one.
func (s State) AcceptsEpoch(epoch int64) bool {
	return epoch == s.Epoch || s.Recovering() && epoch >= s.Prev && epoch < s.Epoch
}

func (s State) SaleStatus() SaleStatus { return s.Sale.StatusAt(s.Now) }

// Admitting reports whether the line assigns free slots.
func (s State) Admitting() bool { return s.Exists() && len(s.Pauses()) == 0 }

// Pause is a reason why a line admits nobody.
type Pause string

// Reasons why a line admits nobody.
const (
	PausedByOperator  Pause = "OPERATOR"
	PausedToRecover   Pause = "RECOVERY"
	PausedForSettings Pause = "SETTINGS" // the line's settings were not read yet
	PausedBySale      Pause = "SALE"
	PausedByShop      Pause = "SHOP" // ticket, whose shop the line leads to, does not answer
)

// Pauses returns all reasons why an existing line admits nobody.
func (s State) Pauses() (reasons []Pause) {
	if s.Paused {
		reasons = append(reasons, PausedByOperator)
	}
	if s.Recovering() {
		reasons = append(reasons, PausedToRecover)
	}
	if s.SettingsAt == 0 {
		reasons = append(reasons, PausedForSettings)
	}
	if !s.SaleStatus().AllowsAdmission() {
		reasons = append(reasons, PausedBySale)
	}
	if s.ShopAway() {
		reasons = append(reasons, PausedByShop)
	}
	return reasons
}

// ShopAwayAfter is the age of ticket's latest answer from which a line that leads to its shop admits
// nobody.
const ShopAwayAfter = 20 * time.Second

// ShopAway reports whether ticket, whose shop the line leads to, does not answer any replica.
func (s State) ShopAway() bool {
	return s.Sale.Status != NoSale && !s.SaleStatus().Ended() && s.Now-s.Sale.At > ShopAwayAfter.Milliseconds()
}

// slotClock is the time in which the ends of slots are kept.
func (s State) slotClock() int64 {
	if s.Sale.Status == NoSale {
		return s.Now - s.Lost
	}
	return min(s.Now, s.Sale.At) - s.Lost
}

// Claim asks the store for one visitor's place, or for a slot if one is free.
type Claim struct {
	UserID string
	Join   bool // enqueues a newcomer
	// Begin allows the call to create a line that is missing and unknown to this replica: the event
	// is known to exist. A valid ticket or token allows it too, since a line must have issued it.
	Begin  bool
	Tier1  Tier1
	Ticket *Ticket
	Entry  *Entry
}

// Standing is a visitor's state in a line.
type Standing int

// Where a visitor can be. Nowhere means that the line does not know the visitor.
const (
	Nowhere Standing = iota
	Waiting
	Inside
	// PassTaken means that another user joined with the tier-1 position, PassMissing that a
	// position is required and missing.
	PassTaken
	PassMissing
	// Blocked means blocked by an operator.
	Blocked
)

// Outcome is the store's answer to a Claim.
type Outcome struct {
	Standing Standing
	// Ahead and Score (µs) are set if Standing is Waiting.
	Ahead, Score int64
	// SlotID and End (epoch ms) are set if Standing is Inside. Claimed means that this call is
	// the first to return the slot to its holder, Entered that this call assigned it.
	SlotID  string
	End     int64
	Claimed bool
	Entered bool
}

// MemberQuery is a read of one visitor's data, as a slot holder if Holder is set, else as a waiter.
type MemberQuery struct {
	UserID string
	Holder bool
}

// MemberState is the result of a MemberQuery.
type MemberState struct {
	Found bool
	// Ahead and Score are a waiter's place.
	Ahead, Score int64
	// Poll is a waiter's last advised poll interval (s), LastSeen the last contact (epoch ms).
	Poll, LastSeen int64
	// SlotID and End are a holder's slot; End is in the time of State.slotClock.
	SlotID string
	End    int64
}

// LastSeenUpdate records a contact. It has no effect when the visitor is no longer there.
type LastSeenUpdate struct {
	UserID string
	Holder bool
	// At is epoch milliseconds, Poll a waiter's advised poll interval (s).
	At, Poll int64
}

// SeatHold is a reservation's hold of seats, made by a slot holder.
type SeatHold struct {
	UserID, SlotID, ReservationID string
	Until                         time.Time // when the hold ends; zero when it was ended early
}

// AdmissionResult is the result of one call of the store that admits waiting visitors (a tick).
type AdmissionResult struct {
	Admitted, Parked int64
	// More means that there is more to do immediately, Silent that nobody has contact and nothing
	// was decided.
	More, Silent bool
	Kept         int64 // the number of slots kept for late visitors
}

// Settings are a line's durable settings. Nil and zero values mean the default, or none.
type Settings struct {
	Threshold   *int64
	Slot        time.Duration
	ClosesAt    time.Time
	Paused      bool
	Blocked     []string
	Closed      bool  // the sale has ended, according to ticket
	NeverOpened bool  // the line was never opened, so a new line has lost no data
	Act         int64 // the highest order of an act that ticket has
}

// SettingsChange changes those of a line's durable settings that are set.
type SettingsChange struct {
	Threshold *int64
	Paused    *bool
	// Block and Unblock are users.
	Block, Unblock string
	// Act is the order of an operator's act, which changes one setting; of two acts on it the one with
	// the higher order counts.
	Act int64
}

// TitleAndArtist is an event's data for pages.
type TitleAndArtist struct{ Title, Artist string }

// Admission is a claimed slot, for external consumers.
type Admission struct {
	EventID, UserID, EntryToken string
	At                          time.Time
}
