package line

import "time"

// Visitor is the signed-in user who asks for a place, with the user's state in tier 1.
type Visitor struct {
	UserID string
	Tier1  Tier1
	// Email (verified, else empty) and Claims ("name=value") may entitle the user to a presale.
	Email  string
	Claims []string
}

// Tier1 is the visitor's state in the event's waiting room (tier 1).
type Tier1 struct {
	Required bool // whether a newcomer to the line needs a position in the waiting room
	// Round is the start, in µs, of the round in which the visitor has a position; Position is that
	// position, from 1. Both are 0 without a valid tier-1 token.
	Round, Position int64
	// Lobby means that the room gives no positions yet. Then a user with an entitlement to the presale
	// needs none.
	Lobby bool
}

// EntryClaims has the claims of a verified entry token. Times are epoch milliseconds.
type EntryClaims struct {
	SlotID         string
	Epoch          int64
	End, ExpiresAt int64
}

// PlaceRequest asks for one visitor's place in the line of an event.
type PlaceRequest struct {
	EventID string
	Visitor Visitor
	Ticket  string       // the signed queue ticket sent by the page, "" without one
	Entry   *EntryClaims // nil without a valid token of this event and user
	// heartbeat means that e-mail and claims are missing, so ticket is not asked about entitlements.
	heartbeat bool
}

// Values of Place.Status: waiting in the line, holding a slot, or neither.
const (
	StatusQueued = "queued"
	StatusActive = "active"
	StatusNone   = "none"
)

// Place is the answer to a visitor: the position in the line and the wait for a slot, or the slot.
type Place struct {
	Status string
	// Position counts from 1; it is 0 for a slot holder. Ahead and Behind are numbers of people.
	Position, Ahead, Behind int64
	// EstimatedWait and NextPoll are seconds. For a waiter, an EstimatedWait of 0 means not known.
	EstimatedWait, NextPoll int64
	// Active is the number of slot holders, Threshold its maximum, QueueSize the number of waiters.
	Active, Threshold, QueueSize int64
	// Title and Artist are empty while they are not known.
	Title, Artist string
	EntryToken    string     // set when the request's token is missing or expires within 30 s
	ExpiresAt     int64      // the slot's end in epoch milliseconds; 0 without a slot
	Sale          SaleStatus // the status of the event's sale
	Paused        bool       // paused by an operator
	Ticket        string     // the signed queue ticket; set while waiting
	// GeneralOpensAt (epoch ms) is when the general sale of an event with a presale opens; 0 after
	// that. Entitled means that the waiting user may enter before that.
	GeneralOpensAt int64
	Entitled       bool
}

// PlaceAnswer is the result of a PlaceRequest: a Place, or an error.
type PlaceAnswer struct {
	Place Place
	Err   error
}

// Ticket is the content of a signed queue ticket. It proves that its holder waited with this score in
// this epoch, and restores the place after Redis lost it.
type Ticket struct {
	Score    int64 // µs
	Epoch    int64 // µs
	IssuedAt int64 // Redis's time in epoch milliseconds
}

// KnownState is what a replica knows of a line. Every call passes it to the store, which thereby
// detects that Redis lost data, and restores the line's settings. The zero value means that nothing is
// known.
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

// LineState is the state of a line, in every answer of the store; zero if there is no line.
type LineState struct {
	Epoch, Rev int64
	// Now is Redis's time, PauseUntil the end of the recovery, both epoch milliseconds.
	Now, PauseUntil int64
	Fresh           bool // this call began the epoch
	// Waiting counts the waiters, Active the slot holders of this epoch, Old those of the ended epoch
	// who had no contact since, Parked the absent waiters whose places are kept.
	Waiting, Active, Old, Parked int64
	Threshold                    int64
	Paused                       bool // paused by an operator
	// SettingsAt is when the settings were read (0 = not yet, nobody is admitted), SlotMS the slot
	// length, ClosesAt the sale's end (0 = none).
	SettingsAt, SlotMS, ClosesAt int64
	// Admitted is the total number of admissions, Arrived the number of newcomers with a position
	// of the latest tier-1 round.
	Admitted, Arrived int64
	// Prev is the previous epoch, whose slot holders keep their slots during recovery; 0 = unknown.
	Prev int64
	Sale Sale  // the latest sale report that any replica passed to the line
	Lost int64 // by how much outages of ticket have extended slots, in ms
	// Pending is the number of acts of operators that are in force and that ticket does not have yet.
	Pending int64
	// Entitled is how many waiters are in the set of users with an entitlement. After the presale the
	// set gives no precedence, but ranks must count the members of both sets.
	Entitled int64
}

func (s LineState) Exists() bool { return s.Epoch > 0 }

// Members counts all visitors of the line.
func (s LineState) Members() int64 { return s.Waiting + s.Active + s.Old + s.Parked }

// Recovering reports whether the line recovers from a data loss. Until the recovery ends, entry
// tokens of the previous epoch may restore their slots.
func (s LineState) Recovering() bool { return s.Now < s.PauseUntil }

// AcceptsEpoch reports whether tokens of an epoch are valid: those of the current epoch and, while
// the line recovers, of the previous one.
func (s LineState) AcceptsEpoch(epoch int64) bool {
	return epoch == s.Epoch || s.Recovering() && epoch >= s.Prev && epoch < s.Epoch
}

func (s LineState) SaleStatus() SaleStatus { return s.Sale.StatusAt(s.Now) }

// BeforeGeneral reports whether the event has a presale, and its general sale has not opened yet.
func (s LineState) BeforeGeneral() bool { return s.Sale.isBeforeGeneral(s.Now) }

// WaitingGeneral counts the waiters who may not enter before the general sale opens, since they
// have no known entitlement to the presale.
func (s LineState) WaitingGeneral() int64 {
	if !s.BeforeGeneral() {
		return 0
	}
	return s.Waiting - s.Entitled
}

// opensFor returns when (ms) the sale opens for a waiter.
func (s LineState) opensFor(entitled bool) int64 {
	if entitled && s.BeforeGeneral() {
		return s.Sale.PresaleOpensAt
	}
	return s.Sale.OpensAt
}

// Admitting reports whether the line exists and gives free slots to its visitors.
func (s LineState) Admitting() bool { return s.Exists() && len(s.Pauses()) == 0 }

// PauseReason is a reason why a line admits nobody.
type PauseReason string

// Reasons why a line admits nobody.
const (
	PausedByOperator  PauseReason = "OPERATOR"
	PausedToRecover   PauseReason = "RECOVERY"
	PausedForSettings PauseReason = "SETTINGS" // the line's settings were not read yet
	PausedBySale      PauseReason = "SALE"
	PausedByShop      PauseReason = "SHOP" // ticket, which has the shop, does not answer
)

// Pauses returns all reasons why an existing line admits nobody.
func (s LineState) Pauses() (reasons []PauseReason) {
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

// ShopAwayAfter is the greatest age of ticket's latest answer at which a line admits visitors.
// Ticket has the shop to which the line leads.
const ShopAwayAfter = 20 * time.Second

// ShopAway reports whether ticket, which has the line's shop, does not answer any replica.
func (s LineState) ShopAway() bool {
	return s.Sale.Status != NoSale && !s.SaleStatus().Ended() && s.Now-s.Sale.At > ShopAwayAfter.Milliseconds()
}

// slotClock returns the time (ms) by which the ends of slots are stored. This time stands still
// while ticket does not answer, so that slots do not run out meanwhile.
func (s LineState) slotClock() int64 {
	if s.Sale.Status == NoSale {
		return s.Now - s.Lost
	}
	return min(s.Now, s.Sale.At) - s.Lost
}

// PlaceClaim asks the store for a visitor's slot, else for a free slot, else for the place in line.
type PlaceClaim struct {
	UserID string
	Join   bool // whether a newcomer is added to the line
	// Begin allows the call to create the line if Redis has none, since the event is known to exist. A
	// valid ticket or token allows that too, since there must have been a line to issue it.
	Begin  bool
	Tier1  Tier1
	Ticket *Ticket
	Entry  *EntryClaims
	// Entitled is ticket's answer about the user. It counts until the general sale opens.
	Entitled Entitlement
}

// Entitlement is what is known of a user's entitlement to a presale.
type Entitlement int

// EntitlementUnknown counts as NotEntitled, but does not replace what the line knows.
const (
	EntitlementUnknown Entitlement = iota
	NotEntitled
	Entitled
)

// EntitlementAnswer is ticket's answer on a user.
type EntitlementAnswer struct {
	UserID   string
	Entitled bool
}

// VisitorStanding is a visitor's state in a line: unknown, waiting, in a slot, or refused.
type VisitorStanding int

// The states of a visitor in a line. Nowhere means that the line does not know the visitor.
const (
	Nowhere VisitorStanding = iota
	Waiting
	Inside
	// PassTaken means that another user has joined with the visitor's tier-1 position, PassMissing
	// that the visitor needs a tier-1 position and has none.
	PassTaken
	PassMissing
	// AnswerMissing means that the visitor needs a tier-1 position or an entitlement, has no position,
	// and ticket has not said whether there is an entitlement.
	AnswerMissing
	// Blocked means that an operator has blocked the user from the line.
	Blocked
)

// ClaimOutcome is the store's answer to a PlaceClaim: the visitor's place or slot.
type ClaimOutcome struct {
	Standing VisitorStanding
	// Ahead and Score (µs) are set if Standing is Waiting.
	Ahead, Score int64
	Entitled     bool // of a waiter: in the set of users with an entitlement
	// SlotID and End (epoch ms) are set if Standing is Inside. Claimed means that the holder learns
	// of the slot by this call, Entered that this call has also assigned it.
	SlotID  string
	End     int64
	Claimed bool
	Entered bool
}

// MemberQuery asks for one visitor's data: the slot if Holder is set, else the place in the line.
type MemberQuery struct {
	UserID string
	Holder bool
	// TwoSets means that the line has waiters in the set of users with an entitlement, too.
	TwoSets bool
}

// MemberState is the result of a MemberQuery: a slot or a place in the line.
type MemberState struct {
	Found bool
	// Ahead and Score are a waiter's place. Ahead counts the lower scores in the waiter's own set,
	// which Entitled tells, Others those in the other set.
	Ahead, Score int64
	Entitled     bool
	Others       int64
	// Poll is a waiter's last advised poll interval (s), LastSeen the last contact (epoch ms).
	Poll, LastSeen int64
	// SlotID and End are a holder's slot; End is in ms of the clock of slots, LineState.slotClock.
	SlotID string
	End    int64
}

// LastSeenUpdate records a visitor's contact. It has no effect if the visitor has left the line.
type LastSeenUpdate struct {
	UserID string
	Holder bool
	// At is epoch milliseconds, Poll a waiter's advised poll interval (s).
	At, Poll int64
}

// SeatHold says until when a reservation of a slot holder holds seats.
type SeatHold struct {
	UserID, SlotID, ReservationID string
	Until                         time.Time // when the hold ends; zero when it was ended early
}

// AdmissionResult is the result of a tick: one call of the store that admits waiting visitors.
type AdmissionResult struct {
	Admitted, Parked int64
	// More means that the call should be repeated immediately. Silent means that no visitor has
	// contact, so that the tick has admitted and parked nobody.
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
	Act         int64 // the highest order number of an operator's act that ticket has stored
}

// SettingsChange is an operator's change of a line: exactly one of the first four fields is set.
type SettingsChange struct {
	Threshold *int64
	Paused    *bool
	// Block is a user to block from the line, Unblock a user to unblock.
	Block, Unblock string
	// Act is the order number of the change. Of two changes of one setting, the one with the higher
	// number counts.
	Act int64
}

// TitleAndArtist is what the pages of the line show about an event.
type TitleAndArtist struct{ Title, Artist string }

// Admission says that a visitor has got a slot. It is published through SQS.
type Admission struct {
	EventID, UserID, EntryToken string
	At                          time.Time
}
