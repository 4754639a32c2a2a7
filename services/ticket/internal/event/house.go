package event

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"urr.guru/pkg/errs"
)

// HouseChange moves places of an event between its sale and its house: the places that the
// organiser keeps. A repeated change changes nothing.
type HouseChange struct {
	// Take has free seats that move to the house; Release has house seats that move to the sale.
	Take, Release []string
	// Standing has the wanted number of house places, by name of a section without seats.
	Standing map[string]int64
}

// House has the places of an event that the organiser keeps, in the order of the seat map.
type House struct {
	SeatIDs  []string
	Sections []HouseSection
}

// Places counts places of an event that are not free or held: sold ones, those that the organiser
// keeps, and those that were given back and will be for sale again. Selling: its sale has not ended.
type Places struct {
	Sold, House, Returning int64
	Selling                bool
}

// HouseSection has the numbers of places of a section. Returning counts places that were given back
// and will be for sale again after a while. Comps counts those that were given away from the house.
type HouseSection struct {
	Name                                    string
	Seated                                  bool
	Capacity, Sold, House, Returning, Comps int64
}

// check returns an error if a seat is in the change twice.
func (c *HouseChange) check() error {
	var bad []errs.Field
	seen := make(map[string]bool, len(c.Take)+len(c.Release))
	for path, ids := range map[string][]string{"take": c.Take, "release": c.Release} {
		for i, id := range ids {
			if seen[id] {
				bad = append(bad, errs.Field{Path: fmt.Sprintf("%s[%d]", path, i), Message: "must not be named twice"})
			}
			seen[id] = true
		}
	}
	if len(bad) > 0 {
		return ErrInvalid.WithFields(bad...)
	}
	return nil
}

// HouseSeat is the state of a locked seat. Due: the seat belongs to a hold whose time is over.
type HouseSeat struct {
	Status string
	Due    bool
}

// Statuses of seats without a reservation.
const (
	SeatStatusFree     = "FREE"
	SeatStatusHouse    = "HOUSE"
	SeatStatusReturned = "RETURNED"
	SeatStatusDelayed  = "DELAYED"
)

// SeatsToMove returns which of the locked seats move to the house (take), and which to the sale
// (release). The change fails as a whole with ErrSeatNotFound or errs.ErrSeatTaken, which list the
// seats. Seats with an expired hold (Due) are left out of take; the caller ends their holds first.
// A seat of Release that is not in the house is left out: it was released before, or sold since.
func (c *HouseChange) SeatsToMove(locked map[string]HouseSeat) (take, release []string, err error) {
	var missing, taken []string
	for _, id := range c.Take {
		seat, ok := locked[id]
		switch {
		case !ok:
			missing = append(missing, id)
		case seat.Status == SeatStatusFree:
			take = append(take, id)
		case seat.Status != SeatStatusHouse && !seat.Due:
			taken = append(taken, id)
		}
	}
	for _, id := range c.Release {
		if seat, ok := locked[id]; !ok {
			missing = append(missing, id)
		} else if seat.Status == SeatStatusHouse {
			release = append(release, id)
		}
	}
	switch {
	case len(missing) > 0:
		err = ErrSeatNotFound.With("seatIds", strings.Join(missing, ","))
	case len(taken) > 0:
		err = errs.ErrSeatTaken.With("seatIds", strings.Join(taken, ","))
	}
	return take, release, err
}

// CheckStanding checks that the sections of Standing exist and are not sold by seat.
func (c *HouseChange) CheckStanding(sections []HouseSection) error {
	for name := range c.Standing {
		i := slices.IndexFunc(sections, func(s HouseSection) bool { return s.Name == name })
		if i < 0 {
			return ErrSectionNotFound
		}
		if sections[i].Seated {
			return ErrSeatingMismatch
		}
	}
	return nil
}

// PutHouse changes which places of an event the organiser keeps, and returns all of these places
// (the house). Errors: ErrNotFound, ErrSeatNotFound, errs.ErrSeatTaken, errs.ErrSoldOut when fewer
// places of a section are free, ErrSectionNotFound, ErrSeatingMismatch.
func (s *Service) PutHouse(ctx context.Context, id string, c HouseChange) (House, error) {
	if err := c.check(); err != nil {
		return House{}, err
	}
	if err := s.writer.ChangeHouse(ctx, id, c); err != nil {
		return House{}, err
	}
	s.forget(id)
	return s.writer.House(ctx, id)
}

// House returns the places of an event that the organiser keeps, or ErrNotFound.
func (s *Service) House(ctx context.Context, id string) (House, error) {
	return s.writer.House(ctx, id)
}
