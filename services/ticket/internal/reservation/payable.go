package reservation

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
)

// Payable is a reservation that can be paid, and the title of its event.
type Payable struct {
	Reservation Reservation
	EventTitle  string
}

// Payable returns the amount due for a user's reservation, and until when. ErrReferenceNotFound
// when it is not that user's; ErrHoldExpired, ErrAlreadyPaid, ErrNotPayable or event.ErrCancelled
// when it cannot be paid any more.
func (s *Service) Payable(ctx context.Context, userID string, id uuid.UUID) (*Payable, error) {
	r, now, err := s.store.Find(ctx, id)
	if errors.Is(err, ErrNotFound) || (err == nil && r.UserID != userID) {
		return nil, ErrReferenceNotFound
	}
	if err != nil {
		return nil, err
	}
	if err := r.Payable(now); err != nil {
		return nil, err
	}
	e, err := s.events.Head(ctx, r.EventID)
	if err != nil {
		return nil, err
	}
	if e.State == event.Cancelled {
		return nil, event.ErrCancelled
	}
	return &Payable{Reservation: *r, EventTitle: e.Title}, nil
}

// BeginPayment reserves time for a payment (see Reservation.BeginPayment). The provider must not be
// called before.
func (s *Service) BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID) (*Payable, error) {
	p, err := s.Payable(ctx, userID, id)
	if err != nil {
		return nil, err
	}
	r, _, err := s.store.Change(ctx, id, paymentBegun(payment, s.extension))
	if err != nil {
		return nil, err
	}
	p.Reservation = *r
	return p, nil
}

// AbortPayment undoes BeginPayment for a payment that was definitely declined (see
// Reservation.AbortPayment).
func (s *Service) AbortPayment(ctx context.Context, id, payment uuid.UUID) error {
	_, _, err := s.store.Change(ctx, id, paymentAborted(payment, s.extension))
	if errors.Is(err, ErrNotFound) {
		return ErrReferenceNotFound
	}
	return err
}
