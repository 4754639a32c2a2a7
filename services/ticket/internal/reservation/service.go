package reservation

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
)

// Events is what holds need to know of what is on sale.
type Events interface {
	// Head returns an event, at most 1 s old.
	Head(ctx context.Context, id string) (event.Event, error)
	// Snapshot returns what is free, at most 100 ms old.
	Snapshot(ctx context.Context, id string) (event.Snapshot, error)
}

// Holder makes holds.
type Holder interface {
	// HoldSeats holds all the seats or none: ErrSeatTaken, event.ErrSeatNotFound, ErrLimitExceeded,
	// event.ErrSaleNotOpen… Seats of expired holds are taken over.
	HoldSeats(ctx context.Context, req SeatsRequest) (*Reservation, error)
	// HoldGeneral holds a number of general admissions; ErrSoldOut.
	HoldGeneral(ctx context.Context, req BestRequest) (*Reservation, error)
	// Replay returns the reservation that an earlier request with the key made, as it was created;
	// nil when there was none, idempotency.ErrInProgress while it runs.
	Replay(ctx context.Context, key *idempotency.Key) (*Reservation, error)
	// CountFree counts the free seats of a section with assigned seating.
	CountFree(ctx context.Context, eventID, section string) (int64, error)
}

// Store keeps reservations.
type Store interface {
	// Find returns a reservation and the database's time, or ErrNotFound.
	Find(ctx context.Context, id uuid.UUID) (*Reservation, time.Time, error)
	// List returns a user's reservations, newest first, those older than before (zero: all).
	List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]Reservation, time.Time, error)
	// Change applies a decision to a locked reservation and writes what it changed, with the events.
	// An error of the decision is returned and nothing is written.
	Change(ctx context.Context, id uuid.UUID, decide Decide) (*Reservation, time.Time, error)
}

// Settler applies payment events.
type Settler interface {
	// Settle applies events by Settlement.Apply in one transaction, each once: those that the group
	// has settled before are left out.
	Settle(ctx context.Context, group string, events []PaymentEvent) error
}

// Service holds seats and applies payments and cancellations to reservations.
type Service struct {
	events  Events
	holder  Holder
	store   Store
	settler Settler
	picker  *picker
	// extension is by how much payments may extend a hold in all.
	extension time.Duration
}

// NewService makes a Service; extension is by how much payments may extend a hold in all, however
// often they are declined and begun again: at least PayWithin.
func NewService(events Events, holder Holder, store Store, settler Settler, extension time.Duration) *Service {
	return &Service{events: events, holder: holder, store: store, settler: settler, picker: newPicker(), extension: extension}
}

// Settle applies payment events, each once in the consumer group.
func (s *Service) Settle(ctx context.Context, group string, events []PaymentEvent) error {
	return s.settler.Settle(ctx, group, events)
}

// HoldSeats holds the named seats.
func (s *Service) HoldSeats(ctx context.Context, req SeatsRequest) (*Reservation, error) {
	return s.holder.HoldSeats(ctx, req)
}

// HoldBest holds the best free seats of a section, or general admissions. ErrSoldOut when fewer are
// free; ErrTryAgain when enough are free, but not adjacent, or other requests were faster each
// time.
func (s *Service) HoldBest(ctx context.Context, req BestRequest) (*Reservation, error) {
	e, err := s.events.Head(ctx, req.EventID)
	if err != nil {
		return nil, err
	}
	if e.Seating == event.General {
		return s.holder.HoldGeneral(ctx, req)
	}
	// Before seats are picked: once the section is sold out, a repeated request would not reach the
	// transaction that replays it.
	if r, err := s.holder.Replay(ctx, req.IdempotencyKey); r != nil || err != nil {
		return r, err
	}
	seats := SeatsRequest{EventID: req.EventID, UserID: req.UserID, SlotID: req.SlotID, IdempotencyKey: req.IdempotencyKey, SkipLocked: true}
	var snap event.Snapshot
	for try := range maxAttempts {
		if snap, err = s.events.Snapshot(ctx, req.EventID); err != nil {
			return nil, err
		}
		sec, ok := snap.Event.Section(req.Section)
		if !ok {
			return nil, event.ErrSectionNotFound
		}
		picked := s.picker.pick(&snap, sec, req.Quantity, req.Adjacent, try)
		if len(picked) == 0 {
			break
		}
		seats.SeatIDs = snap.Event.SeatsAt(picked)
		r, err := s.holder.HoldSeats(ctx, seats)
		if err == nil || !errors.Is(err, ErrSeatTaken) {
			if err != nil && errs.From(err).Kind != errs.Internal { // which these seats may have caused
				s.picker.release(req.EventID, picked)
			}
			return r, err
		}
	}
	why := s.refusalReason(ctx, req, &snap)
	// A concurrent repetition of the request may have made the hold: a double click gets that hold.
	if r, err := s.holder.Replay(ctx, req.IdempotencyKey); r != nil || err != nil {
		return r, err
	}
	return nil, why
}

// refusalReason returns why nothing was held. Reasons that no other seats can change come first.
// Then a count that waits for no lock tells ErrSoldOut from ErrTryAgain. The snapshot is such a
// count: once a section is sold out in it, requests do not count the seats again.
func (s *Service) refusalReason(ctx context.Context, req BestRequest, snap *event.Snapshot) error {
	if err := snap.Event.Sale().Admits(snap.At); err != nil {
		return err
	}
	if err := CheckLimit(0, req.Quantity, snap.Event.MaxPerUser); err != nil {
		return err
	}
	if snap.FreeIn(req.Section) < int64(req.Quantity) {
		return ErrSoldOut
	}
	free, err := s.holder.CountFree(ctx, req.EventID, req.Section)
	switch {
	case err != nil:
		return err
	case free < int64(req.Quantity):
		return ErrSoldOut
	default:
		return ErrTryAgain
	}
}

// Get returns a user's own reservation; one whose time is over has expired. ErrNotFound for any
// other user.
func (s *Service) Get(ctx context.Context, userID string, id uuid.UUID) (*Reservation, error) {
	r, now, err := s.store.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.UserID != userID {
		return nil, ErrNotFound
	}
	seen := r.At(now)
	return &seen, nil
}

// List returns a user's own reservations, newest first, and where the next page begins (zero: there
// is none).
func (s *Service) List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]Reservation, uuid.UUID, error) {
	list, now, err := s.store.List(ctx, userID, limit+1, before)
	if err != nil {
		return nil, uuid.Nil, err
	}
	for i := range list {
		list[i] = list[i].At(now)
	}
	if len(list) <= limit {
		return list, uuid.Nil, nil
	}
	return list[:limit], list[limit-1].ID, nil
}

// Cancel ends a user's own hold; eventID, unless empty, must be its event.
func (s *Service) Cancel(ctx context.Context, userID, eventID string, id uuid.UUID) error {
	_, _, err := s.store.Change(ctx, id, cancelled(userID, eventID))
	return err
}
