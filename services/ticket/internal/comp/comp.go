// Package comp gives places of the house away: orders without a payment, by name, outside the line and
// everybody's limit.
package comp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/reservation"
)

// claimBytes is the length of a claim: nobody guesses 128 random bits.
const claimBytes = 16

// Request asks for an order of named seats, or of a number of places of a section.
type Request struct {
	EventID, Name string
	SeatIDs       []string
	Section       string
	Quantity      int
	// UserID has the tickets; empty: whoever claims them by a link.
	UserID         string
	IdempotencyKey *idempotency.Key
}

// Comp is such an order.
type Comp struct {
	reservation.Reservation

	Name string
	// ByLink says that it was not made for a user.
	ByLink bool
	// TicketIDs are the tickets that admit somebody.
	TicketIDs []uuid.UUID
	// Claim is what its link carries. It is known to the answer of the request only.
	Claim string
}

// Store keeps the orders.
type Store interface {
	// Make sells places of the house, all or none, and keeps the hash of the claim. A repeated request
	// returns the first order, with the new claim unless somebody has the tickets.
	Make(ctx context.Context, req Request, claimHash []byte) (order Comp, renewed bool, err error)
	// List returns orders of an event with smaller ids than before (zero: all), newest first.
	List(ctx context.Context, eventID string, limit int, before uuid.UUID) ([]Comp, error)
	// Claim gives the tickets of an order to a user; ticket.ErrNotFound when another user has them, or
	// there is no such claim.
	Claim(ctx context.Context, claimHash []byte, userID string) (Comp, error)
}

// Service makes orders and their claims, which are not stored.
type Service struct{ store Store }

// NewService makes a Service.
func NewService(store Store) *Service { return &Service{store: store} }

// Make makes an order. Errors: event.ErrNotFound, event.ErrCancelled, event.ErrSeatNotFound,
// event.ErrSectionNotFound, event.ErrSeatingMismatch; errs.ErrSeatTaken for seats that are not in the
// house, errs.ErrSoldOut when it has fewer places.
func (s *Service) Make(ctx context.Context, req Request) (Comp, error) {
	if req.UserID != "" {
		order, _, err := s.store.Make(ctx, req, nil)
		return order, err
	}
	secret := make([]byte, claimBytes)
	_, _ = rand.Read(secret) // never fails
	claim := base64.RawURLEncoding.EncodeToString(secret)
	order, renewed, err := s.store.Make(ctx, req, hash(claim))
	if renewed {
		order.Claim = claim
	}
	return order, err
}

// List returns orders of an event, newest first, and the `before` of the next page (zero: none).
func (s *Service) List(ctx context.Context, eventID string, limit int, before uuid.UUID) ([]Comp, uuid.UUID, error) {
	list, err := s.store.List(ctx, eventID, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].ID, nil
}

// Claim gives the tickets of a link to a user. It is idempotent.
func (s *Service) Claim(ctx context.Context, claim, userID string) (Comp, error) {
	return s.store.Claim(ctx, hash(claim), userID)
}

func hash(claim string) []byte {
	sum := sha256.Sum256([]byte(claim))
	return sum[:]
}
