package settlement

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/transfer"
)

// Kind is the kind of thing that a payment pays for. The payment service calls it payment type.
type Kind string

// The kinds.
const (
	Reservation Kind = "reservation"
	Transfer    Kind = "transfer"
	Membership  Kind = "membership"
)

// Payable is something that a user can pay, such as a reservation.
type Payable struct {
	Kind    Kind
	ID      uuid.UUID
	UserID  string
	EventID string // empty for a membership
	// Amount is in the currency's minor unit.
	Amount   int64
	Currency string
	// ExpiresAt is the end of the time to pay.
	ExpiresAt time.Time
	// Description is what the payment provider's page shows.
	Description string
	// StatementSuffix is what a card's statement names; empty: only the account's own name.
	StatementSuffix string
}

// Target answers the payment service's calls about one kind of Payable, such as reservations.
type Target interface {
	// Payable returns what a user can pay; reservation.ErrReferenceNotFound if it is another user's.
	Payable(ctx context.Context, userID string, id uuid.UUID) (*Payable, error)
	// BeginPayment reserves the Payable for a payment. It must succeed before the provider is called.
	BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID, t reservation.PayTime) (*Payable, error)
	// AbortPayment undoes BeginPayment for a payment that was definitely not taken.
	AbortPayment(ctx context.Context, id, payment uuid.UUID, why reservation.Failure) error
	// ExtendPayments gives payments that are still under way more time, and returns these payments.
	ExtendPayments(ctx context.Context, payments []reservation.UnderWay) ([]reservation.UnderWay, error)
}

// Targets has the Target of each kind that is sold here.
type Targets map[Kind]Target

// Sold reports whether this kind of thing is sold here.
func (t Targets) Sold(k Kind) bool { return t[k] != nil }

// Of returns the target of a kind, or reservation.ErrReferenceNotFound for a kind that is not sold.
func (t Targets) Of(k Kind) (Target, error) {
	if !t.Sold(k) {
		return nil, reservation.ErrReferenceNotFound
	}
	return t[k], nil
}

// Reservations is the Target of payments for reservations.
type Reservations struct{ *reservation.Service }

var _ Target = Reservations{}

func (r Reservations) Payable(ctx context.Context, userID string, id uuid.UUID) (*Payable, error) {
	return toPayable(r.Service.Payable(ctx, userID, id))
}

func (r Reservations) BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID, t reservation.PayTime) (*Payable, error) {
	return toPayable(r.ClaimFor(ctx, userID, id, payment, t))
}

func toPayable(p *reservation.Payable, err error) (*Payable, error) {
	if err != nil {
		return nil, err
	}
	r := &p.Reservation
	return &Payable{
		Kind: Reservation, ID: r.ID, UserID: r.UserID, EventID: r.EventID, Amount: r.Amount, Currency: r.Currency,
		ExpiresAt: r.ExpiresAt, Description: describe(p), StatementSuffix: p.StatementSuffix,
	}, nil
}

// describe returns the title of the event and the places of a reservation.
func describe(p *reservation.Payable) string {
	r := &p.Reservation
	if len(r.Seats) > 0 {
		return p.EventTitle + ": " + strings.Join(r.SeatIDs(), ", ")
	}
	return p.EventTitle + ": " + strconv.Itoa(r.Quantity) + " × " + r.Section
}

// Transfers is the Target of payments for tickets that pass from one user to another.
type Transfers struct{ *transfer.Service }

var _ Target = Transfers{}

func (t Transfers) Payable(ctx context.Context, userID string, id uuid.UUID) (*Payable, error) {
	return transferPayable(t.Service.Payable(ctx, userID, id))
}

func (t Transfers) BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID, pt reservation.PayTime) (*Payable, error) {
	return transferPayable(t.ClaimFor(ctx, userID, id, payment, pt))
}

func transferPayable(t *transfer.Shown, err error) (*Payable, error) {
	if err != nil {
		return nil, err
	}
	return &Payable{
		Kind: Transfer, ID: t.ID, UserID: t.Buyer, EventID: t.EventID, Amount: t.Price, Currency: t.Currency, ExpiresAt: t.PayUntil,
		Description: t.EventTitle, StatementSuffix: t.StatementSuffix,
	}, nil
}

// Memberships is the Target of payments for memberships.
type Memberships struct{ *membership.Service }

var _ Target = Memberships{}

func (m Memberships) Payable(ctx context.Context, userID string, id uuid.UUID) (*Payable, error) {
	return membershipPayable(m.Service.Payable(ctx, userID, id))
}

func (m Memberships) BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID, t reservation.PayTime) (*Payable, error) {
	return membershipPayable(m.ClaimFor(ctx, userID, id, payment, t))
}

func membershipPayable(m *membership.Shown, err error) (*Payable, error) {
	if err != nil {
		return nil, err
	}
	return &Payable{
		Kind: Membership, ID: m.ID, UserID: m.UserID, Amount: m.Price, Currency: m.Currency, ExpiresAt: m.PayUntil, Description: m.Name,
	}, nil
}
