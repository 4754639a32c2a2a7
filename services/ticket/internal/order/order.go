// Package order shows orders to operators: reservations with all that came of them.
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

	// Origin is SALE, or COMP for what was given away.
	Origin string
	// UpdatedAt is the time of the latest change.
	UpdatedAt time.Time
}

// Ticket is a ticket with its history.
type Ticket struct {
	ticket.Ticket

	// Previous is the ticket that was passed on for this one; zero: none.
	Previous uuid.UUID
}

// Detail is an order with all that came of it.
type Detail struct {
	Order

	// Tickets are in the order of their places, and of a place in that of their ids.
	Tickets []Ticket
	// Scans are in the order of their records.
	Scans []checkin.Scan
}

// Criteria name orders. Those that fit everything that is set are meant.
type Criteria struct {
	ReservationID, TicketID uuid.UUID
	// SeatID is a seat of the event: who has it, and who had a ticket for it.
	SeatID  string
	EventID string
	// UserID has made the order, or has a ticket of it.
	UserID string
}

// Store reads orders.
type Store interface {
	// SearchOrders returns orders with smaller ids than before (zero: all), newest first. Of an event
	// alone they are those that were paid for or given away.
	SearchOrders(ctx context.Context, c Criteria, limit int, before uuid.UUID) ([]Order, error)
	// FindOrder returns an order, or reservation.ErrNotFound.
	FindOrder(ctx context.Context, id uuid.UUID) (*Detail, error)
}

// Codes decodes the codes of tickets.
type Codes interface {
	// Verify decodes a genuine code, also one that is not valid any more, else ticket.ErrCodeInvalid.
	Verify(code string) (ticket.Code, error)
}

// Service answers operators.
type Service struct {
	store Store
	codes Codes
}

// NewService makes a Service.
func NewService(store Store, codes Codes) *Service { return &Service{store: store, codes: codes} }

// Search returns a page of the orders that fit the criteria and the code of a ticket ("": any), newest
// first, and the `before` of the next page (zero: none).
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

// Get returns an order, or reservation.ErrNotFound.
func (s *Service) Get(ctx context.Context, id uuid.UUID) (*Detail, error) {
	return s.store.FindOrder(ctx, id)
}
