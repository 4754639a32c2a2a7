package event

import (
	"bytes"
	"math"
	"time"
)

// Stored states of a seat. SeatSold is also the state of a seat that the organiser keeps, or that
// was given back. Any other value is the time, in µs since 1970, until which the seat is held.
const (
	SeatFree int64 = 0
	SeatSold int64 = -1
)

// Occupancy has the states of the seats of an event with assigned seating. It is updated seat by
// seat, so that the cost of a snapshot depends only on the number of held seats.
type Occupancy struct {
	seats     int
	sold      []byte          // bit i, most significant first within a byte: seat i is sold
	soldCount int64           // the number of set bits of sold
	held      map[int32]int64 // the end of the hold, in µs since 1970, by the seat's index
	// cached is the latest snapshot; nil after a change. It is valid before cachedUntil (µs since
	// 1970), when the first hold that it counts as taken ends.
	cached      *Snapshot
	cachedUntil int64
}

// NewOccupancy makes the Occupancy of an event whose seats are all free.
func NewOccupancy(e *Event) *Occupancy {
	seats := e.Seats()
	return &Occupancy{seats: seats, sold: make([]byte, (seats+7)/8), held: make(map[int32]int64)}
}

// Set sets the state of the seat with this index. Unknown indexes are ignored.
func (o *Occupancy) Set(index int32, state int64) {
	if index < 0 || int(index) >= o.seats {
		return
	}
	o.cached = nil
	byteIndex, bit := index/8, byte(0x80>>(index%8))
	if o.sold[byteIndex]&bit != 0 {
		o.sold[byteIndex] &^= bit
		o.soldCount--
	}
	delete(o.held, index)
	switch state {
	case SeatFree:
	case SeatSold:
		o.sold[byteIndex] |= bit
		o.soldCount++
	default:
		o.held[index] = state
	}
}

// Snapshot returns the event with its free seats at a time. Expired holds count as free.
func (o *Occupancy) Snapshot(e *Event, at time.Time) Snapshot {
	now := at.UnixMicro()
	if o.cached != nil && now >= o.cached.At.UnixMicro() && now < o.cachedUntil {
		s := *o.cached
		s.At = at
		return s
	}
	bitmap := bytes.Clone(o.sold)
	o.cachedUntil = math.MaxInt64
	for index, until := range o.held {
		if until > now {
			bitmap[index/8] |= 0x80 >> (index % 8)
			o.cachedUntil = min(o.cachedUntil, until)
		}
	}
	for i := range bitmap {
		bitmap[i] = ^bitmap[i]
	}
	if usedBits := o.seats % 8; usedBits > 0 {
		bitmap[len(bitmap)-1] &= 0xff << (8 - usedBits)
	}
	s := Snapshot{Event: *e, At: at, Bitmap: bitmap, Free: make([]int64, len(e.Sections)), Sold: o.soldCount}
	for i, sec := range e.Sections {
		s.Free[i] = countBits(bitmap, sec.First, sec.First+sec.Rows*sec.SeatsPerRow)
	}
	s.ETag = s.hash()
	o.cached = &s
	return s
}
