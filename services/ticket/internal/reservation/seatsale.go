package reservation

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
)

// ErrUndecided is the result of a request that its batch could not answer: another transaction has
// locked what the request needs, or the batch failed. The request must then be answered in a
// transaction of its own, in which it may wait.
var ErrUndecided = errors.New("to be decided in a transaction of its own")

// SeatSale is the state of an event with seats while a transaction answers requests for seats. The
// transaction calls, in this order:
//
//	CheckUser   after it has locked the users
//	CheckSeats  after it has read the seats into Unlocked
//	Allot       after it has locked the seats in Locked, and the holds in Expired
type SeatSale struct {
	LockedSale

	// Waits: the transaction answers one request and waits for locks, unless the request skips
	// locked seats. Otherwise the transaction answers a batch of requests and never waits.
	Waits bool
	// BusyUsers are the users that another transaction has locked.
	BusyUsers map[string]bool
	// Unlocked has the requested seats that exist, as they were read before any was locked.
	Unlocked map[string]UnlockedSeat
	Locked   map[string]*LockedSeat
	// Expired has the ids of the seats of each expired hold that may be taken over.
	Expired map[uuid.UUID][]string
	// TakenOver has the ids of the expired holds whose seats the requests got.
	TakenOver []uuid.UUID
}

// UnlockedSeat is a seat as it was read without a lock.
type UnlockedSeat struct {
	Price, Fee int64
	// Takeable: the seat is free, or its hold has expired.
	Takeable bool
	// HeldBy is the reservation whose hold of the seat has expired; zero: there is none.
	HeldBy uuid.UUID
}

// LockedSeat is a locked seat as it is stored, with the decision about it.
type LockedSeat struct {
	Free         bool
	HeldBy       uuid.UUID // the reservation whose hold has expired
	OwnerChanged bool      // the decision changes Owner
	Owner        uuid.UUID // the new owner; zero: the seat becomes free
}

// NewSeatSale makes a SeatSale into which the transaction reads its data.
func NewSeatSale(waits bool) SeatSale {
	return SeatSale{
		Waits: waits, BusyUsers: make(map[string]bool), Unlocked: make(map[string]UnlockedSeat), Locked: make(map[string]*LockedSeat),
		Expired: make(map[uuid.UUID][]string),
	}
}

// CheckUser returns the error of a request that is refused whichever seats it asks for, or
// ErrUndecided if another transaction has locked the user.
func (s *SeatSale) CheckUser(req SeatsRequest) error {
	if s.BusyUsers[req.UserID] {
		return ErrUndecided
	}
	return s.checkSale(req)
}

func (s *SeatSale) checkSale(req SeatsRequest) error {
	if err := s.Sale.CheckOpen(s.Now, req.Entitled); err != nil {
		return err
	}
	return s.checkLimits(req.UserID, len(req.SeatIDs))
}

// CheckSeats returns the error of a request for seats that do not exist or are taken, so that the
// request does not wait for their locks.
func (s *SeatSale) CheckSeats(req SeatsRequest) error {
	var missing, taken []string
	for _, id := range req.SeatIDs {
		if seat, ok := s.Unlocked[id]; !ok {
			missing = append(missing, id)
		} else if !seat.Takeable {
			taken = append(taken, id)
		}
	}
	return seatsError(missing, taken)
}

// Allot reserves all seats of a request. A refused request changes nothing. Allot must be called
// for requests in the order of their arrival.
func (s *SeatSale) Allot(req SeatsRequest) (*Reservation, error) {
	if err := s.checkSale(req); err != nil {
		return nil, err
	}
	var missing, taken []string
	var expired []uuid.UUID
	for _, id := range req.SeatIDs {
		seat := s.Locked[id]
		switch {
		case seat == nil && !req.SkipLocked && s.Waits: // deleted since it was read
			missing = append(missing, id)
		case seat == nil && !req.SkipLocked:
			return nil, ErrUndecided
		case seat == nil || (!seat.Free && s.Expired[seat.HeldBy] == nil):
			taken = append(taken, id)
		case !seat.Free && !slices.Contains(expired, seat.HeldBy):
			expired = append(expired, seat.HeldBy)
		}
	}
	if err := seatsError(missing, taken); err != nil {
		return nil, err
	}
	for _, hold := range expired {
		if !s.FullyLocked(hold) { // the hold was extended, or another transaction has locked one of its seats
			if !s.Waits && !req.SkipLocked {
				return nil, ErrUndecided
			}
			return nil, takenError(req.SeatIDs)
		}
	}
	for _, hold := range expired {
		s.takeOver(hold)
	}
	return s.reserve(req), nil
}

// FullyLocked reports whether all seats of an expired hold are locked and still belong to it.
func (s *SeatSale) FullyLocked(hold uuid.UUID) bool {
	return !slices.ContainsFunc(s.Expired[hold], func(id string) bool { return s.Locked[id] == nil || s.Locked[id].HeldBy != hold })
}

// takeOver makes all seats of an expired hold free.
func (s *SeatSale) takeOver(hold uuid.UUID) {
	s.TakenOver = append(s.TakenOver, hold)
	for _, id := range s.Expired[hold] {
		*s.Locked[id] = LockedSeat{Free: true, OwnerChanged: true}
	}
}

func (s *SeatSale) reserve(req SeatsRequest) *Reservation {
	wanted := Reservation{
		UserID: req.UserID, Contact: req.Contact, SlotID: req.SlotID, Quantity: len(req.SeatIDs), Seats: make([]Seat, len(req.SeatIDs)),
	}
	for n, id := range req.SeatIDs {
		seat := NewSeat(id, s.Unlocked[id].Price)
		seat.Fee = s.Unlocked[id].Fee
		wanted.Seats[n] = seat
		wanted.Amount += seat.Price + seat.Fee
		wanted.Fee += seat.Fee
	}
	SortSeats(wanted.Seats)
	r := s.hold(wanted)
	for _, id := range req.SeatIDs {
		*s.Locked[id] = LockedSeat{OwnerChanged: true, Owner: r.ID}
	}
	return r
}

// seatsError returns ErrSeatNotFound if seats are missing, otherwise ErrSeatTaken if seats are
// taken, otherwise nil. The error lists the seats.
func seatsError(missing, taken []string) error {
	switch {
	case len(missing) > 0:
		return event.ErrSeatNotFound.With("seatIds", strings.Join(missing, ","))
	case len(taken) > 0:
		return takenError(taken)
	default:
		return nil
	}
}

func takenError(seatIDs []string) error {
	return ErrSeatTaken.With("seatIds", strings.Join(seatIDs, ","))
}
