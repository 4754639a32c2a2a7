package reservation

import (
	"cmp"
	"slices"
	"strings"

	"urr.guru/pkg/ids"
)

// Seat is one seat of a reservation.
type Seat struct {
	ID      string
	Section string
	Row     string
	Number  int
	// Price is in the currency's minor unit; Fee is paid on top of it.
	Price, Fee int64
}

// NewSeat makes a Seat from its id, which contains section, row and number.
func NewSeat(id string, price int64) Seat {
	section, row, number, _ := ids.SplitSeat(id)
	return Seat{ID: id, Section: section, Row: row, Number: number, Price: price}
}

// SortSeats sorts seats by section, row and number; row 9 comes before row 10.
func SortSeats(seats []Seat) {
	slices.SortFunc(seats, func(a, b Seat) int {
		return cmp.Or(strings.Compare(a.Section, b.Section), cmp.Compare(len(a.Row), len(b.Row)), strings.Compare(a.Row, b.Row),
			cmp.Compare(a.Number, b.Number))
	})
}

func (r *Reservation) SeatIDs() []string {
	ids := make([]string, len(r.Seats))
	for i, s := range r.Seats {
		ids[i] = s.ID
	}
	return ids
}
