// Package reservation has the rules by which places are held, paid, refunded and freed again.
package reservation

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/purchase"
)

// Status is the status of a reservation. Its transitions:
//
//	HELD → PAYING                  a payment begins
//	PAYING → HELD                  the payment is declined or rejected
//	HELD, PAYING → CONFIRMED       a payment is confirmed
//	HELD, PAYING → CANCELLED       its user cancels it, or refunds of its cancelled event begin
//	HELD, PAYING → EXPIRED         its time is over
//	EXPIRED, CANCELLED → REJECTED  a payment is confirmed nevertheless
//	CONFIRMED → REFUNDED           the last of its places is given back
//	CONFIRMED → VOIDED             the last of its places is voided
type Status string

// The statuses of a reservation.
const (
	Held      Status = "HELD"
	Paying    Status = "PAYING"
	Confirmed Status = "CONFIRMED"
	Cancelled Status = "CANCELLED"
	Expired   Status = "EXPIRED"
	Rejected  Status = "REJECTED"
	Refunded  Status = "REFUNDED"
	Voided    Status = "VOIDED"
)

// Live reports whether a reservation in this status occupies its places.
func (s Status) Live() bool { return s == Held || s == Paying || s == Confirmed }

// Unpaid reports whether a reservation in this status is not paid, and so expires at the end of its claim.
func (s Status) Unpaid() bool { return s == Held || s == Paying }

// Reasons for the end of a reservation or the rejection of a payment, besides those of purchase.
const (
	ReasonUser      = "USER"
	ReasonCancelled = "CANCELLED"
	ReasonVoided    = "VOIDED"
	ReasonBlocked   = "BLOCKED"
)

// Origin says how a reservation came about.
type Origin string

// The origins. The organiser gives a comp away: it has no payment, and counts for nobody's limit.
const (
	Sale Origin = "SALE"
	Comp Origin = "COMP"
)

// Reservation is a number of places that one user holds or has bought. Only its methods change its
// status. The times given to them are the database's.
type Reservation struct {
	// Until is the end of the hold, or of the time to pay; of a cancelled one, when that was.
	purchase.Claim

	ID      uuid.UUID
	Origin  Origin
	EventID string
	UserID  string
	// Contact is the user's address for e-mails. It is set for new ones, and not read from the store.
	Contact purchase.Contact
	// SlotID is the slot of the waiting line in which the user made the reservation.
	SlotID string
	// Section is set for general admission only, and Seats for assigned seating only.
	Section string
	// Seats[n-1] is the seat of place n, also if it was given back or voided.
	Seats    []Seat
	Quantity int
	// Released is the number of places that were given back or voided.
	Released int
	// Amount is the price with fees at the time of the hold, in the currency's minor unit. Fee is
	// the part of Amount that is fees.
	Amount, Fee int64
	Currency    string
	Status      Status
	Reason      string
	// WholeOnly: the payment that has just paid can be refunded as a whole only. It is kept in the
	// tickets that are issued.
	WholeOnly bool
	// Version grows by one with every change.
	Version   int64
	CreatedAt time.Time

	events   []Event
	returned []ReturnedPlace
}

// NewID makes the id of a reservation: a UUIDv7, so that ids sort by time.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// NewHeld makes r a new reservation, whose places are held from now on for holdFor.
func NewHeld(r Reservation, holdFor time.Duration, now time.Time) *Reservation {
	r.Origin, r.Status, r.Version, r.CreatedAt = cmp.Or(r.Origin, Sale), Held, 1, now
	r.Claim = purchase.NewClaim(now.Add(holdFor))
	r.emit(EventCreated, "", uuid.Nil, now)
	return &r
}

// NewComp makes r a new reservation that is given away: it is confirmed without a payment.
func NewComp(r Reservation, now time.Time) *Reservation {
	r.Origin = Comp
	comp := NewHeld(r, 0, now)
	comp.Status = Confirmed
	comp.Version++
	comp.emit(EventConfirmed, "", uuid.Nil, now)
	return comp
}

// Due reports whether the reservation is unpaid and its time is over. It may not be EXPIRED yet.
func (r *Reservation) Due(now time.Time) bool { return r.Status.Unpaid() && r.Over(now) }

// At returns the reservation as users see it at a time: EXPIRED if its time is over.
func (r Reservation) At(now time.Time) Reservation {
	if r.Due(now) {
		r.Status, r.Reason = Expired, purchase.ReasonHoldExpired
	}
	return r
}

// AsCreated returns the reservation in its first state (HELD), to answer a repeated request.
func (r Reservation) AsCreated() *Reservation {
	r.Status, r.Reason, r.Version, r.events, r.Released, r.returned = Held, "", 1, nil, 0, nil
	r.Claim = purchase.NewClaim(r.OriginalEnd)
	return &r
}
