package reservation

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
)

// Payable is a reservation that can be paid, with the title and the StatementSuffix of its event.
type Payable struct {
	Reservation     Reservation
	EventTitle      string
	StatementSuffix string
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
	return &Payable{Reservation: *r, EventTitle: e.Title, StatementSuffix: *e.StatementSuffix}, nil
}

// BeginPayment is ClaimFor without a PayTime.
func (s *Service) BeginPayment(ctx context.Context, userID string, id, payment uuid.UUID) (*Payable, error) {
	return s.ClaimFor(ctx, userID, id, payment, PayTime{})
}

// ClaimFor reserves time for a payment (see Reservation.ClaimFor). It must succeed before the
// provider is called. No payment begins for a cancelled event, even if Payable has read an older
// state of the event from the cache.
func (s *Service) ClaimFor(ctx context.Context, userID string, id, payment uuid.UUID, t PayTime) (*Payable, error) {
	p, err := s.Payable(ctx, userID, id)
	if err != nil {
		return nil, err
	}
	r, err := s.store.ChangeOfEvent(ctx, id, func(r *Reservation, terms PayTerms) error {
		if terms.Blocked && (!r.Charging || r.PaymentID != payment) { // else it may have been charged
			return errs.ErrBuyerBlocked
		}
		t.Others = terms.Others
		return r.ClaimFor(payment, terms.Now, s.maxExtension, t)
	})
	if err != nil {
		return nil, err
	}
	p.Reservation = *r
	return p, nil
}

// MaxExtension returns the maximum time by which payments may extend a hold.
func (s *Service) MaxExtension() time.Duration { return s.maxExtension }

// UnderWay is a payment under way for a reservation, a transfer or a membership (ReferenceID).
type UnderWay struct{ ReferenceID, PaymentID uuid.UUID }

// ExtendPayments gives payments that are still under way more time (see Reservation.Extend), and
// returns them. It locks only the reservations of payments that are short of time.
func (s *Service) ExtendPayments(ctx context.Context, payments []UnderWay) ([]UnderWay, error) {
	paying, short, err := s.store.Paying(ctx, payments, ExtendTo)
	if err != nil || len(short) == 0 {
		return paying, err
	}
	return paying, s.store.ChangeAll(ctx, short, func(r *Reservation, payment uuid.UUID, now time.Time) {
		r.Extend(payment, now, s.maxExtension)
	})
}

// AbortPayment undoes BeginPayment for a payment that was definitely not taken (see
// Reservation.FailPayment).
func (s *Service) AbortPayment(ctx context.Context, id, payment uuid.UUID, why Failure) error {
	_, err := s.store.Change(ctx, id, func(r *Reservation, now time.Time) error {
		r.FailPayment(payment, why, now, s.maxExtension)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return ErrReferenceNotFound
	}
	return err
}
