// Package order shows orders to operators: reservations with their tickets and scans.
package order

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// Order is a reservation as operators see it.
type Order struct {
	reservation.Reservation

	// UpdatedAt is the time of the latest change.
	UpdatedAt time.Time
}

// Ticket is a ticket with the ticket that it replaced.
type Ticket struct {
	ticket.Ticket

	// Previous is the ticket of the former holder, who transferred it; zero: there was none.
	Previous uuid.UUID
	// Void is nil unless the ticket is VOIDED.
	Void *Void
}

// Void says which operator has voided a ticket, when and why.
type Void struct {
	Operator, Reason string
	At               time.Time
}

// Detail is an order with all of its tickets and their scans.
type Detail struct {
	Order

	// Tickets are sorted by place, and those of the same place by id.
	Tickets []Ticket
	// Scans are in the order in which they were recorded.
	Scans []checkin.Scan
}

// Criteria selects the orders that match all fields that are set.
type Criteria struct {
	ReservationID, TicketID uuid.UUID
	// SeatID is a seat of the event EventID: it selects the orders that have or had a ticket for it.
	SeatID  string
	EventID string
	// UserID is the user who made the order, or who has a ticket of it.
	UserID string
}

// Store reads orders.
type Store interface {
	// SearchOrders returns up to limit orders with ids below before (zero: all), newest first. If
	// only EventID is set, orders that were neither paid for nor given away are left out.
	SearchOrders(ctx context.Context, c Criteria, limit int, before uuid.UUID) ([]Order, error)
	// FindOrder returns an order, or reservation.ErrNotFound.
	FindOrder(ctx context.Context, id uuid.UUID) (*Detail, error)
}

// Codes verifies and decodes the codes of tickets.
type Codes interface {
	// Verify decodes a genuine code, even of an invalid ticket, or returns ticket.ErrCodeInvalid.
	Verify(code string) (ticket.Code, error)
}

// Service finds orders for operators.
type Service struct {
	store Store
	codes Codes
}

// NewService makes a Service that reads orders from store.
func NewService(store Store, codes Codes) *Service { return &Service{store: store, codes: codes} }

// Search returns a page of the orders that match the criteria and the code of a ticket ("": any),
// newest first, and the value of before for the next page (zero: this is the last page).
func (s *Service) Search(ctx context.Context, c Criteria, code string, limit int, before uuid.UUID) ([]Order, uuid.UUID, error) {
	if code != "" {
		genuine, err := s.codes.Verify(code)
		if err != nil {
			return nil, uuid.Nil, err
		}
		c.TicketID = genuine.TicketID
	}
	list, err := s.store.SearchOrders(ctx, c, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].ID, nil
}

// Get returns an order with its tickets and scans, or reservation.ErrNotFound.
func (s *Service) Get(ctx context.Context, id uuid.UUID) (*Detail, error) {
	return s.store.FindOrder(ctx, id)
}
