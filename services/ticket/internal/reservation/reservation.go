// Package reservation is the life of a reservation: how seats are held, what a payment does to
// them, and when they are free again.
package reservation

import (
	"time"

	"github.com/google/uuid"
)

// Status is where a reservation is in its life:
//
//	HELD → PAYING → CONFIRMED → REFUNDED     PAYING → HELD after a declined payment
//	HELD → CANCELLED                         HELD, PAYING → EXPIRED when their time is over
//	EXPIRED, CANCELLED → REJECTED            when they were paid all the same
type Status string

// The statuses. A reservation in one of the first three is live: no other reservation can have its
// seats.
const (
	Held      Status = "HELD"
	Paying    Status = "PAYING"
	Confirmed Status = "CONFIRMED"
	Cancelled Status = "CANCELLED"
	Expired   Status = "EXPIRED"
	Rejected  Status = "REJECTED"
	Refunded  Status = "REFUNDED"
)

// Live reports whether a reservation in this status has its seats.
func (s Status) Live() bool { return s == Held || s == Paying || s == Confirmed }

// Unpaid reports whether a reservation in this status ends with its time.
func (s Status) Unpaid() bool { return s == Held || s == Paying }

// Times of a payment.
const (
	// PayWithin is how long a payment that has begun may take; the seats cannot be taken until
	// then.
	PayWithin = 10 * time.Minute
	// RetryWithin is the least time that a hold has left after a declined payment.
	RetryWithin = 2 * time.Minute
)

// Why a reservation ended, or a payment of it was rejected.
const (
	ReasonUser           = "USER"
	ReasonHoldExpired    = "HOLD_EXPIRED"
	ReasonCancelled      = "CANCELLED"
	ReasonAlreadyPaid    = "ALREADY_PAID"
	ReasonRefunded       = "REFUNDED"
	ReasonAmountMismatch = "AMOUNT_MISMATCH"
	ReasonUnknown        = "RESERVATION_NOT_FOUND"
)

// Reservation is a number of places that one user holds or has bought. Its status changes by its
// methods only, which decide by the time given to them: the database's.
type Reservation struct {
	ID      uuid.UUID
	EventID string
	UserID  string
	// SlotID is the tier-2 slot in which it was made.
	SlotID string
	// Section is set for general admission only; Seats are empty then.
	Section  string
	Seats    []Seat
	Quantity int
	// Amount in the currency's minor unit, as it was when the hold was made.
	Amount   int64
	Currency string
	Status   Status
	Reason   string
	// ExpiresAt is the end of the hold, or of the time to pay. HoldEndsAt is the end of the hold as
	// it was made.
	ExpiresAt  time.Time
	HoldEndsAt time.Time
	// PaymentID is the payment that is under way, has paid, or was rejected; uuid.Nil without one.
	PaymentID uuid.UUID
	// Version grows by one with every change.
	Version   int64
	CreatedAt time.Time

	events []Event
}

// NewID makes a reservation's id: a UUIDv7, so that ids sort by time.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// Hold is what a new reservation is made of.
type Hold struct {
	ID                      uuid.UUID
	EventID, UserID, SlotID string
	Section                 string
	Seats                   []Seat
	Quantity                int
	Amount                  int64
	Currency                string
	For                     time.Duration
}

// NewHeld makes a reservation that holds its places from now on.
func NewHeld(h Hold, now time.Time) *Reservation {
	end := now.Add(h.For)
	r := &Reservation{
		ID: h.ID, EventID: h.EventID, UserID: h.UserID, SlotID: h.SlotID,
		Section: h.Section, Seats: h.Seats, Quantity: h.Quantity, Amount: h.Amount, Currency: h.Currency,
		Status: Held, ExpiresAt: end, HoldEndsAt: end, Version: 1, CreatedAt: now,
	}
	r.emit(EventCreated, "", uuid.Nil, now)
	return r
}

// Due reports whether the reservation's time is over, whether or not it has been expired yet.
func (r *Reservation) Due(now time.Time) bool { return r.Status.Unpaid() && !now.Before(r.ExpiresAt) }

// At is the reservation as seen at a moment: a hold whose time is over has expired.
func (r Reservation) At(now time.Time) Reservation {
	if r.Due(now) {
		r.Status, r.Reason = Expired, ReasonHoldExpired
	}
	return r
}

// AsCreated is the reservation as it was created: the answer that a repeated request gets.
func (r Reservation) AsCreated() *Reservation {
	r.Status, r.Reason, r.ExpiresAt, r.PaymentID, r.Version, r.events = Held, "", r.HoldEndsAt, uuid.Nil, 1, nil
	return &r
}
