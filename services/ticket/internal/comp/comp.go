// Package comp gives away places that the organiser keeps (the house). Such an order (a comp) has a
// name but no payment, needs no waiting line, and does not count for the user's limit of places.
package comp

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/claim"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

// Request asks for a comp: for certain seats, or for a number of places of a section.
type Request struct {
	EventID, Name string
	SeatIDs       []string
	Section       string
	Quantity      int
	// UserID is the user who gets the tickets; empty: whoever claims them with the comp's link.
	UserID         string
	IdempotencyKey *idempotency.Key
}

// Comp is an order of places that the organiser gives away for nothing.
type Comp struct {
	reservation.Reservation

	Name string
	// ByLink: the comp was made for whoever claims it with its link, not for a certain user.
	ByLink bool
	// TicketIDs are the tickets that were neither refunded nor transferred.
	TicketIDs []uuid.UUID
	// Claim is the secret in the comp's link. Only the answer to the request for the comp has it.
	Claim string
}

// Store stores comps.
type Store interface {
	// Make gives places of the house away, all or none. A repeated request returns the first comp.
	// renewed reports whether claimHash was stored: it is not once somebody has the comp's tickets.
	Make(ctx context.Context, req Request, claimHash []byte) (order Comp, renewed bool, err error)
	// List returns up to limit comps of an event with ids below before (zero: all), newest first.
	List(ctx context.Context, eventID string, limit int, before uuid.UUID) ([]Comp, error)
	// Claim gives the tickets of a comp to a user. It fails with ticket.ErrNotFound when another
	// user has claimed them, or no comp has this claim.
	Claim(ctx context.Context, claimHash []byte, userID string, contact purchase.Contact) (Comp, error)
}

// Service makes comps and their claims. Only the hashes of claims are stored.
type Service struct{ store Store }

// NewService makes a Service that keeps comps in store.
func NewService(store Store) *Service { return &Service{store: store} }

// Make makes a comp. Errors: event.ErrNotFound, event.ErrCancelled, event.ErrSeatNotFound,
// event.ErrSectionNotFound, event.ErrSeatingMismatch; errs.ErrSeatTaken for seats that are not in
// the house, errs.ErrSoldOut when the house has fewer places.
func (s *Service) Make(ctx context.Context, req Request) (Comp, error) {
	if req.UserID != "" {
		order, _, err := s.store.Make(ctx, req, nil)
		return order, err
	}
	secret := claim.New()
	order, renewed, err := s.store.Make(ctx, req, claim.Hash(secret))
	if renewed {
		order.Claim = secret
	}
	return order, err
}

// List returns an event's comps, newest first, and `before` for the next page (zero: none).
func (s *Service) List(ctx context.Context, eventID string, limit int, before uuid.UUID) ([]Comp, uuid.UUID, error) {
	list, err := s.store.List(ctx, eventID, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].ID, nil
}

// Claim gives the tickets of the comp with this claim to a user. It may be repeated.
func (s *Service) Claim(ctx context.Context, secret, userID string, contact purchase.Contact) (Comp, error) {
	return s.store.Claim(ctx, claim.Hash(secret), userID, contact)
}
