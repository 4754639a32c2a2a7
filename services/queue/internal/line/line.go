package line

import "time"

// Visitor is a signed-in user who asks for a place in a line, with the user's state in tier 1.
type Visitor struct {
	UserID string
	Tier1  Tier1
	// Email (empty unless verified) and Claims ("name=value") may entitle the user to a presale.
	Email  string
	Claims []string
}

// Tier1 is the visitor's state in the event's waiting room (tier 1).
type Tier1 struct {
	// Required means that joining the line requires a position in the waiting room. Until the general
	// sale opens, users with an entitlement to the presale need none.
	Required bool
	// Round identifies, by its start in µs, the round in which the visitor has a position. Position is
	// that position, from 1. Both are 0 without a valid tier-1 token.
	Round, Position int64
}

// EntryClaims has the content of a verified entry token. Times are epoch milliseconds.
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
	// heartbeat: e-mail and claims are missing, so nobody is asked about the user's entitlement.
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
	// Position counts from 1; 0 for a slot holder. Ahead and Behind count people in the line.
	Position, Ahead, Behind int64
	// EstimatedWait and NextPoll are seconds. An EstimatedWait of 0 for a waiter means unknown.
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
	// GeneralOpensAt (epoch ms) is when the general sale of an event with a presale opens; 0 once it
	// has opened. Entitled means that the waiting user may enter before.
	GeneralOpensAt int64
	Entitled       bool
}

// PlaceAnswer is the result of a PlaceRequest: a Place, or an error.
type PlaceAnswer struct {
	Place Place
	Err   error
}

// Ticket is the content of a signed queue ticket. It proves that its holder has waited with this
// score in this epoch (lifetime of the line's data), and restores the place after a loss of data.
type Ticket struct {
	Score    int64 // µs
	Epoch    int64 // µs
	IssuedAt int64 // Redis's time in epoch milliseconds
}

// KnownState is what a replica knows of a line. It is an argument of every call of the store. The
// store uses it to detect that Redis lost data, and to restore the line's settings. The zero value
// means that nothing is known.
type KnownState struct {
	Epoch, Revision int64
	// AnsweredAt is when the line last answered. SettingsAt is when its settings were read. Both are
	// Redis's time in epoch milliseconds, 0 = never.
	AnsweredAt, SettingsAt int64
	Threshold              int64
	Paused                 bool
	SlotMS, ClosesAt       int64
	Sale                   Sale // the latest sale report known to this replica
}

// LineState is the state of a line, which every call of the store returns; zero without a line.
// Replicas of other releases read it as JSON, so the tags keep the names of its fields there.
type LineState struct {
	Epoch    int64
	Revision int64 `json:"Rev"`
	// Now is Redis's time. PauseUntil is the end of the recovery. Both are epoch milliseconds.
	Now, PauseUntil int64
	BegunNow        bool `json:"Fresh"` // the call that returns this has begun the epoch
	// Waiting counts the waiters, Active the slot holders of this epoch. PrevHolders counts slot holders of
	// the ended epoch without contact since then. Parked counts absent waiters whose places are kept.
	Waiting, Active, Parked int64
	PrevHolders             int64 `json:"Old"`
	Threshold               int64
	Paused                  bool // paused by an operator
	// SettingsAt is when the settings were read (0 = never, so that nobody is admitted). SlotMS is the
	// length of a slot. ClosesAt is the end of the sale (0 = none).
	SettingsAt, SlotMS, ClosesAt int64
	// Admitted is the total number of admissions. Arrived is how many visitors joined with a position
	// of the latest tier-1 round.
	Admitted, Arrived int64
	// PrevEpoch is the previous epoch, whose slot holders keep their slots during recovery; 0 = unknown.
	PrevEpoch  int64 `json:"Prev"`
	Sale       Sale  // the latest sale report that any replica passed to the line
	ExtendedMS int64 `json:"Lost"` // by how many ms outages of the ticket service have extended slots
	// Pending is the number of operators' acts in force that the ticket service has not stored yet.
	Pending int64
	// Entitled is how many waiters are in the set of users with an entitlement. After the presale that
	// set has no precedence, but the rank of a waiter is counted over both sets.
	Entitled int64
}

func (s LineState) Exists() bool { return s.Epoch > 0 }

// Members counts all visitors of the line.
func (s LineState) Members() int64 { return s.Waiting + s.Active + s.PrevHolders + s.Parked }

// Recovering reports whether the line is recovering from a loss of data. Until the recovery ends,
// entry tokens of the previous epoch may restore their slots.
func (s LineState) Recovering() bool { return s.Now < s.PauseUntil }

// AcceptsEpoch reports whether tokens of an epoch are valid: those of the current epoch and, while
// the line recovers, of the previous one.
func (s LineState) AcceptsEpoch(epoch int64) bool {
	return epoch == s.Epoch || s.Recovering() && epoch >= s.PrevEpoch && epoch < s.Epoch
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

// opensFor returns when (ms) the sale opens for a waiter with or without an entitlement.
func (s LineState) opensFor(entitled bool) int64 {
	if entitled && s.BeforeGeneral() {
		return s.Sale.PresaleOpensAt
	}
	return s.Sale.OpensAt
}

// Admitting reports whether the line exists and gives its free slots to visitors.
func (s LineState) Admitting() bool { return s.Exists() && len(s.Pauses()) == 0 }

// PauseReason is a reason why a line admits nobody.
type PauseReason string

// Reasons why a line admits nobody.
const (
	PausedByOperator  PauseReason = "OPERATOR"
	PausedToRecover   PauseReason = "RECOVERY"
	PausedForSettings PauseReason = "SETTINGS" // the line's settings have not been read yet
	PausedBySale      PauseReason = "SALE"
	PausedByShop      PauseReason = "SHOP" // the ticket service, which has the shop, does not answer
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

// ShopAwayAfter is how old the last answer of the ticket service may be. After that a line admits
// nobody, since that service has the shop to which the line leads.
const ShopAwayAfter = 20 * time.Second

// ShopAway reports whether the ticket service, which has the shop, does not answer any replica.
func (s LineState) ShopAway() bool {
	return s.Sale.Status != NoSale && !s.SaleStatus().Ended() && s.Now-s.Sale.At > ShopAwayAfter.Milliseconds()
}

// slotClock returns the time (ms) with which the stored ends of slots are compared. It stands still
// while the ticket service does not answer, so that slots do not run out meanwhile.
func (s LineState) slotClock() int64 {
	if s.Sale.Status == NoSale {
		return s.Now - s.ExtendedMS
	}
	return min(s.Now, s.Sale.At) - s.ExtendedMS
}

// PlaceClaim asks the store for a visitor's slot; without one, for a free slot; else for the place.
type PlaceClaim struct {
	UserID string
	Join   bool // whether the visitor is added to the line if new
	// Begin allows the call to create a missing line, since the event exists. A valid queue ticket or
	// entry token allows that too: only a line can have issued it.
	Begin  bool
	Tier1  Tier1
	Ticket *Ticket
	Entry  *EntryClaims
	// Entitled is the answer of the ticket service. It is used until the general sale opens.
	Entitled Entitlement
}

// Entitlement is what is known of a user's entitlement to a presale.
type Entitlement int

// EntitlementUnknown and NotEntitledBefore do not change what the line has stored.
const (
	EntitlementUnknown Entitlement = iota
	NotEntitled
	Entitled
	// NotEntitledBefore is a cached "no". Another replica may know better, so it only tells a newcomer to
	// get a position, where EntitlementUnknown tells to ask again.
	NotEntitledBefore
)

// EntitlementAnswer is the answer of the ticket service about one user.
type EntitlementAnswer struct {
	UserID   string
	Entitled bool
}

// VisitorState is a visitor's state in a line: unknown, waiting, in a slot, or refused.
type VisitorState int

// The states of a visitor in a line. NotInLine: neither waiting nor in a slot, as all after a sale.
const (
	NotInLine VisitorState = iota
	Waiting
	Inside
	// PassTaken means that another user has joined with the visitor's tier-1 position. PassMissing
	// means that the visitor needs a tier-1 position and has none.
	PassTaken
	PassMissing
	// AnswerMissing means that the visitor needs a tier-1 position or an entitlement, has no position,
	// and the ticket service has not answered whether there is an entitlement.
	AnswerMissing
	// Blocked means that an operator has blocked the user from the line.
	Blocked
)

// ClaimOutcome is the store's answer to a PlaceClaim: the visitor's place or slot.
type ClaimOutcome struct {
	State VisitorState
	// Ahead and Score (µs) are set if State is Waiting.
	Ahead, Score int64
	Entitled     bool // the waiter is in the set of users with an entitlement
	// SlotID and End, its expiry (epoch ms), are set if State is Inside. Claimed: the holder learns
	// of the slot for the first time by this answer. Entered: this call has assigned the slot.
	SlotID  string
	End     int64
	Claimed bool
	Entered bool
}

// MemberQuery asks for one visitor's data: the slot if Holder is set, else the place in the line.
type MemberQuery struct {
	UserID string
	Holder bool
	// TwoSets means that the line also has waiters in the set of users with an entitlement.
	TwoSets bool
}

// MemberState is the result of a MemberQuery: a slot or a place in the line.
type MemberState struct {
	Found bool
	// Ahead and Score are a waiter's place. Ahead counts the lower scores in the waiter's own set,
	// Others those in the other set. Entitled tells which set is the waiter's own.
	Ahead, Score int64
	Entitled     bool
	Others       int64
	// Poll is the last poll interval (s) advised to a waiter. LastSeen is the last contact (epoch ms).
	Poll, LastSeen int64
	// SlotID and End are a holder's slot. End is in ms, on the clock LineState.slotClock.
	SlotID string
	End    int64
}

// LastSeenUpdate records a visitor's contact. It has no effect if the visitor has left the line.
type LastSeenUpdate struct {
	UserID string
	Holder bool
	// At is the time in epoch ms. Poll is the poll interval (s) advised to a waiter.
	At, Poll int64
}

// SeatHold says until when a reservation of a slot holder holds seats.
type SeatHold struct {
	UserID, SlotID, ReservationID string
	Until                         time.Time // when the hold ends; zero when it was ended early
}

// AdmissionResult is the result of a tick, the call of the store that admits waiting visitors.
type AdmissionResult struct {
	Admitted, Parked int64
	// More means that the tick should be repeated at once. Silent means that no visitor has contact,
	// so that nobody was admitted or parked.
	More, Silent bool
	Kept         int64 // the number of slots kept for late visitors
}

// Settings are a line's durable settings. A nil or zero value means the default, or none.
type Settings struct {
	Threshold   *int64
	Slot        time.Duration
	ClosesAt    time.Time
	Paused      bool
	Blocked     []string
	Closed      bool  // the ticket service says that the sale has ended
	NeverOpened bool  // the line was never opened, so a new line has lost no data
	Act         int64 // the highest order number of a stored act
}

// SettingsChange is an operator's change of a line. Exactly one of the first four fields is set.
type SettingsChange struct {
	Threshold *int64
	Paused    *bool
	// Block is a user to block from the line, Unblock a user to unblock.
	Block, Unblock string
	// Act is the order number of the change. The change with the highest number decides a setting.
	Act int64
}

// TitleAndArtist is what the pages of the line show about an event.
type TitleAndArtist struct{ Title, Artist string }

// Admission says that a visitor has got a slot. It is published through SQS.
type Admission struct {
	EventID, UserID, EntryToken string
	At                          time.Time
}
