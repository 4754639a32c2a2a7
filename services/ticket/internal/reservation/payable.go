package reservation

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
)

// Payable is a reservation that can be paid, and the title of its event.
type Payable struct {
	Reservation Reservation
	EventTitle  string
}

// Payable returns a user's reservation if it can be paid. It fails with ErrReferenceNotFound for
// another user's reservation; with ErrHoldExpired, ErrAlreadyPaid, ErrNotPayable or
// event.ErrCancelled if the reservation can no longer be paid.
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
	if !e.State.TakesPlace() {
		return nil, event.ErrCancelled
	}
	return &Payable{Reservation: *r, EventTitle: e.Title}, nil
}

// BeginPayment reserves time for a payment (see Reservation.BeginPayment). It must succeed before
// the provider is called. It checks again whether the event is cancelled, since Payable may read an
// event that is 1 s old.
func (s *Service) BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID) (*Payable, error) {
	p, err := s.Payable(ctx, userID, id)
	if err != nil {
		return nil, err
	}
	r, err := s.store.ChangeOfEvent(ctx, id, func(r *Reservation, now time.Time) error {
		return r.BeginPayment(payment, now, s.maxExtension)
	})
	if err != nil {
		return nil, err
	}
	p.Reservation = *r
	return p, nil
}

// AbortPayment undoes BeginPayment for a payment that was definitely declined (see
// Reservation.AbortPayment).
func (s *Service) AbortPayment(ctx context.Context, id, payment uuid.UUID) error {
	_, err := s.store.Change(ctx, id, func(r *Reservation, now time.Time) error {
		r.AbortPayment(payment, now, s.maxExtension)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return ErrReferenceNotFound
	}
	return err
}
