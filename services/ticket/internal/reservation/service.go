package reservation

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
)

// Events reads the events for which places are held.
type Events interface {
	// Event returns an event, at most 1 s old.
	Event(ctx context.Context, id string) (event.Event, error)
	// Snapshot returns an event with its free places, at most 100 ms old.
	Snapshot(ctx context.Context, id string) (event.Snapshot, error)
}

// Entitlements decides who may buy in a presale.
type Entitlements interface {
	// Entitled reports whether the user has an entitlement for the event's presale.
	Entitled(ctx context.Context, e *event.Event, user entitlement.User) (bool, error)
}

// Holder makes holds.
type Holder interface {
	// HoldSeats holds all the seats or none. Seats of expired holds are taken over. Errors:
	// ErrSeatTaken, event.ErrSeatNotFound, ErrLimitExceeded, event.ErrSaleNotOpen…
	HoldSeats(ctx context.Context, req SeatsRequest) (*Reservation, error)
	// HoldGeneral holds a number of places without seats. ErrSoldOut when fewer are free.
	HoldGeneral(ctx context.Context, req BestRequest) (*Reservation, error)
	// Replay returns the reservation that an earlier request with the key made, as it was created;
	// nil when there was none, idempotency.ErrInProgress while the earlier request runs.
	Replay(ctx context.Context, key *idempotency.Key) (*Reservation, error)
	// CountFree returns the number of free seats of a section with seats.
	CountFree(ctx context.Context, eventID, section string) (int64, error)
}

// Decide changes a locked reservation; now is the database's time. Store.Change returns its error.
type Decide func(r *Reservation, now time.Time) error

// Store reads and changes stored reservations.
type Store interface {
	// Find returns a reservation and the database's time, or ErrNotFound.
	Find(ctx context.Context, id uuid.UUID) (*Reservation, time.Time, error)
	// Show returns what Find returns. It serves users, who poll a reservation while they pay. Show
	// and List use connections of their own, and so take none from payments.
	Show(ctx context.Context, id uuid.UUID) (*Reservation, time.Time, error)
	// List returns a user's reservations with smaller ids than before (zero: all), newest first.
	List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]Reservation, time.Time, error)
	// Change locks a reservation, calls decide, and writes the changes and their Kafka events in
	// the same transaction. Nothing is written when decide returns an error.
	Change(ctx context.Context, id uuid.UUID, decide Decide) (*Reservation, error)
	// ChangeToBegin, ChangeClaims and Paying are those of purchase.Store.
	ChangeToBegin(ctx context.Context, id uuid.UUID, change func(p *Purchase, now time.Time) error) error
	ChangeClaims(ctx context.Context, payments []purchase.UnderWay, change func(p *Purchase, payment uuid.UUID, now time.Time)) error
	Paying(ctx context.Context, payments []purchase.UnderWay, left time.Duration) (paying, short []purchase.UnderWay, err error)
}

// Service holds places, reads and cancels reservations, and answers the calls about their payments.
type Service struct {
	purchase.Kind[*Purchase]

	events       Events
	entitlements Entitlements
	holder       Holder
	store        Store
	picker       *picker
}

// NewService makes a Service. Payments may extend a hold by maxExtension at most, however often
// they are declined and begun again; it must be at least PayWithin.
func NewService(events Events, entitlements Entitlements, holder Holder, store Store, maxExtension time.Duration) *Service {
	return &Service{
		Kind:   purchase.NewKind(payables{Store: store, events: events}, maxExtension),
		events: events, entitlements: entitlements, holder: holder, store: store, picker: newPicker(),
	}
}

func (s *Service) HoldSeats(ctx context.Context, req SeatsRequest) (*Reservation, error) {
	e, err := s.events.Event(ctx, req.EventID)
	if err != nil {
		return nil, err
	}
	if req.Entitled, err = s.entitled(ctx, &e, entitlement.User{ID: req.UserID, Email: req.Contact.Email, Claims: req.Claims}); err != nil {
		return nil, err
	}
	return s.holder.HoldSeats(ctx, req)
}

// entitled reports whether the user may buy in the event's presale; false if there is none, or if
// it ended over a minute ago: then it has ended by the database's clock too, which decides.
func (s *Service) entitled(ctx context.Context, e *event.Event, u entitlement.User) (bool, error) {
	if e.Presale == nil || !e.Presale.Exists() || time.Since(e.SalesOpenAt) > time.Minute {
		return false, nil
	}
	return s.entitlements.Entitled(ctx, e, u)
}

// HoldBest holds the best free seats of a section, or places without seats. ErrSoldOut when fewer
// are free; ErrNotAdjacent when no row has as many free seats next to each other; ErrTryAgain when
// other requests took the seats at every attempt.
func (s *Service) HoldBest(ctx context.Context, req BestRequest) (*Reservation, error) {
	e, err := s.events.Event(ctx, req.EventID)
	if err != nil {
		return nil, err
	}
	if req.Entitled, err = s.entitled(ctx, &e, entitlement.User{ID: req.UserID, Email: req.Contact.Email, Claims: req.Claims}); err != nil {
		return nil, err
	}
	if sec, ok := e.Section(req.Section); e.Seating == event.General || ok && sec.Seating() == event.General {
		return s.holder.HoldGeneral(ctx, req)
	}
	// A repeated request must get its old answer even if the section is sold out by now, in which
	// case the loop below would not begin a transaction.
	if r, err := s.holder.Replay(ctx, req.IdempotencyKey); r != nil || err != nil {
		return r, err
	}
	seats := SeatsRequest{
		EventID: req.EventID, UserID: req.UserID, Contact: req.Contact, PresaleRight: req.PresaleRight, SlotID: req.SlotID, IdempotencyKey: req.IdempotencyKey,
		SkipLocked: true,
	}
	var snap event.Snapshot
	for attempt := range maxAttempts {
		if snap, err = s.events.Snapshot(ctx, req.EventID); err != nil {
			return nil, err
		}
		sec, ok := snap.Event.Section(req.Section)
		if !ok {
			return nil, event.ErrSectionNotFound
		}
		picked := s.picker.pick(&snap, sec, req.Quantity, req.Adjacent, attempt)
		if len(picked) == 0 {
			break
		}
		seats.SeatIDs = snap.Event.SeatsAt(picked)
		r, err := s.holder.HoldSeats(ctx, seats)
		if err == nil || !errors.Is(err, ErrSeatTaken) {
			if err != nil && errs.From(err).Kind != errs.Internal { // else these seats may have caused the error
				s.picker.release(req.EventID, picked)
			}
			return r, err
		}
	}
	refusal := s.refusal(ctx, req, &snap)
	// A concurrent request with the same key may have made the hold, as after a double click.
	if r, err := s.holder.Replay(ctx, req.IdempotencyKey); r != nil || err != nil {
		return r, err
	}
	return nil, refusal
}

// refusal returns the error of a request that got no seats. It first checks for errors that the
// request would have got with any seats. Otherwise it counts the free seats, to tell ErrSoldOut
// from ErrNotAdjacent and ErrTryAgain, unless the snapshot shows that too few are free.
func (s *Service) refusal(ctx context.Context, req BestRequest, snap *event.Snapshot) error {
	sale := snap.Event.Sale()
	if err := sale.CheckOpen(snap.At, req.Entitled); err != nil {
		return err
	}
	if err := (event.Record{}).CheckLimits(&sale, snap.At, req.Quantity); err != nil {
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
	case req.Adjacent && !hasAdjacent(snap, req.Section, req.Quantity):
		return ErrNotAdjacent
	default:
		return ErrTryAgain
	}
}

// Get returns a user's own reservation, EXPIRED if its time is over. ErrNotFound: it is not theirs.
func (s *Service) Get(ctx context.Context, userID string, id uuid.UUID) (*Reservation, error) {
	r, now, err := s.store.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.UserID != userID {
		return nil, ErrNotFound
	}
	return new(r.At(now)), nil
}

// List returns a page of a user's own reservations, newest first, and the value of before for the
// next page (zero: this is the last page).
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

// Cancel ends a user's own hold. ErrNotFound for another user's hold; event.ErrWrongEvent if
// eventID is not empty and the hold is of another event.
func (s *Service) Cancel(ctx context.Context, userID, eventID string, id uuid.UUID) error {
	_, err := s.store.Change(ctx, id, func(r *Reservation, now time.Time) error {
		switch {
		case r.UserID != userID:
			return ErrNotFound
		case eventID != "" && r.EventID != eventID:
			return event.ErrWrongEvent
		default:
			return r.Cancel(now)
		}
	})
	return err
}
