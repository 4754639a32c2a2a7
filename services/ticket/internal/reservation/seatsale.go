package reservation

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
)

// ErrUndecided is the result of a request that its batch could not decide on: another transaction
// has locked what the request needs, or the batch failed. The request is decided in a transaction
// of its own, in which it may wait.
var ErrUndecided = errors.New("to be decided alone")

// SeatSale is the state of an event with assigned seating while one transaction decides on
// requests, in this order:
//
//	Refusal       the users are locked
//	SeatsRefusal  the seats are read, in Seen
//	Allot         the seats are locked, in Locked, and so are the holds in Expired
type SeatSale struct {
	LockedSale

	// Waits: the only request waits for the locks that it needs, unless it skips locked seats. Else
	// no request waits.
	Waits bool
	// Busy are the users that another transaction has locked.
	Busy map[string]bool
	// Seen are the seats that exist, as they were before any was locked.
	Seen   map[string]SeenSeat
	Locked map[string]*LockedSeat
	// Expired are the holds that may be taken over, with their seats.
	Expired map[uuid.UUID][]string
	// Ended are those that were taken over.
	Ended []uuid.UUID
}

// SeenSeat is a seat as it was before it was locked.
type SeenSeat struct {
	Price int64
	// Takeable: it is free, or the time of its hold is over.
	Takeable bool
	// HeldBy is the hold whose time is over; zero: none.
	HeldBy uuid.UUID
}

// LockedSeat is a seat while it is locked: as the store has it, and what is decided.
type LockedSeat struct {
	Free   bool
	HeldBy uuid.UUID // an expired hold
	Moved  bool
	Owner  uuid.UUID // of a moved seat; the zero UUID when it becomes free
}

// NewSeatSale makes a SeatSale of which nothing is known yet.
func NewSeatSale(waits bool) SeatSale {
	return SeatSale{
		Waits: waits, Busy: make(map[string]bool), Seen: make(map[string]SeenSeat), Locked: make(map[string]*LockedSeat),
		Expired: make(map[uuid.UUID][]string),
	}
}

// Refusal returns why a request gets nothing, as far as is known before its seats are read.
func (s *SeatSale) Refusal(req SeatsRequest) error {
	if s.Busy[req.UserID] {
		return ErrUndecided
	}
	return s.admitsUser(req)
}

// admitsUser checks what does not depend on the seats.
func (s *SeatSale) admitsUser(req SeatsRequest) error {
	if err := s.Sale.Admits(s.Now); err != nil {
		return err
	}
	return CheckLimit(s.Used[req.UserID], len(req.SeatIDs), s.Sale.MaxPerUser)
}

// SeatsRefusal returns why a request cannot have its seats, as far as is known before they are
// locked. A seat that is known to be taken is not waited for.
func (s *SeatSale) SeatsRefusal(req SeatsRequest) error {
	var missing, taken []string
	for _, id := range req.SeatIDs {
		if seat, ok := s.Seen[id]; !ok {
			missing = append(missing, id)
		} else if !seat.Takeable {
			taken = append(taken, id)
		}
	}
	return refusalOf(missing, taken)
}

// Allot gives a request all of its seats, or returns why not. It is called in the order of arrival.
func (s *SeatSale) Allot(req SeatsRequest) (*Reservation, error) {
	if err := s.admitsUser(req); err != nil {
		return nil, err
	}
	var missing, taken []string
	var over []uuid.UUID
	for _, id := range req.SeatIDs {
		seat := s.Locked[id]
		switch {
		case seat == nil && !req.SkipLocked && s.Waits: // deleted since it was read
			missing = append(missing, id)
		case seat == nil && !req.SkipLocked:
			return nil, ErrUndecided
		case seat == nil || (!seat.Free && s.Expired[seat.HeldBy] == nil):
			taken = append(taken, id)
		case !seat.Free && !slices.Contains(over, seat.HeldBy):
			over = append(over, seat.HeldBy)
		}
	}
	if err := refusalOf(missing, taken); err != nil {
		return nil, err
	}
	for _, hold := range over {
		if !s.Complete(hold) { // it may have been extended, or another transaction has locked a seat of it
			if !s.Waits && !req.SkipLocked {
				return nil, ErrUndecided
			}
			return nil, takenError(req.SeatIDs)
		}
	}
	for _, hold := range over {
		s.end(hold)
	}
	return s.give(req), nil
}

// Complete reports whether all seats of an expired hold are locked and still its own.
func (s *SeatSale) Complete(hold uuid.UUID) bool {
	return !slices.ContainsFunc(s.Expired[hold], func(id string) bool { return s.Locked[id] == nil || s.Locked[id].HeldBy != hold })
}

// end makes all seats of an expired hold free.
func (s *SeatSale) end(hold uuid.UUID) {
	s.Ended = append(s.Ended, hold)
	for _, id := range s.Expired[hold] {
		*s.Locked[id] = LockedSeat{Free: true, Moved: true}
	}
}

// give gives a request its seats.
func (s *SeatSale) give(req SeatsRequest) *Reservation {
	h := Hold{UserID: req.UserID, SlotID: req.SlotID, Quantity: len(req.SeatIDs), Seats: make([]Seat, len(req.SeatIDs))}
	for n, id := range req.SeatIDs {
		h.Seats[n] = NewSeat(id, s.Seen[id].Price)
		h.Amount += h.Seats[n].Price
	}
	SortSeats(h.Seats)
	r := s.hold(h)
	for _, id := range req.SeatIDs {
		*s.Locked[id] = LockedSeat{Moved: true, Owner: r.ID}
	}
	return r
}

// refusalOf is the error for seats that do not exist, else for those that are taken; nil without
// any.
func refusalOf(missing, taken []string) error {
	switch {
	case len(missing) > 0:
		return event.ErrSeatNotFound.With("seatIds", strings.Join(missing, ","))
	case len(taken) > 0:
		return takenError(taken)
	default:
		return nil
	}
}

// takenError is ErrSeatTaken with the taken seats.
func takenError(seatIDs []string) error {
	return ErrSeatTaken.With("seatIds", strings.Join(seatIDs, ","))
}
