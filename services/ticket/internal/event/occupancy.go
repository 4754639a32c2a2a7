package event

import (
	"bytes"
	"math"
	"time"
)

// Seat states as they are stored: free, sold, or held until a time in µs since 1970.
const (
	SeatFree int64 = 0
	SeatSold int64 = -1
)

// Occupancy is who has the seats of an event with assigned seating. It is kept up to date by single
// changes, so that a snapshot costs no more than what is held.
type Occupancy struct {
	seats int
	sold  []byte          // a bitmap as that of Snapshot
	count int64           // of sold seats
	held  map[int32]int64 // by the seat's index
	// last is the last snapshot while nothing has changed, until the first hold that it counts as
	// taken is over.
	last  *Snapshot
	until int64
}

// NewOccupancy has all seats free.
func NewOccupancy(e *Event) *Occupancy {
	seats := 0
	for _, s := range e.Sections {
		seats += s.Rows * s.SeatsPerRow
	}
	return &Occupancy{seats: seats, sold: make([]byte, (seats+7)/8), held: make(map[int32]int64)}
}

// Set sets the state of the seat of an index; unknown indexes are ignored.
func (o *Occupancy) Set(index int32, state int64) {
	if index < 0 || int(index) >= o.seats {
		return
	}
	o.last = nil
	at, bit := index/8, byte(0x80>>(index%8))
	if o.sold[at]&bit != 0 {
		o.sold[at] &^= bit
		o.count--
	}
	delete(o.held, index)
	switch state {
	case SeatFree:
	case SeatSold:
		o.sold[at] |= bit
		o.count++
	default:
		o.held[index] = state
	}
}

// Snapshot is what is free of the event at a moment. Expired holds are free.
func (o *Occupancy) Snapshot(e *Event, at time.Time) Snapshot {
	now := at.UnixMicro()
	if o.last != nil && now >= o.last.At.UnixMicro() && now < o.until {
		s := *o.last
		s.At = at
		return s
	}
	bitmap := bytes.Clone(o.sold)
	o.until = math.MaxInt64
	for index, until := range o.held {
		if until > now {
			bitmap[index/8] |= 0x80 >> (index % 8)
			o.until = min(o.until, until)
		}
	}
	for i := range bitmap {
		bitmap[i] = ^bitmap[i]
	}
	if rest := o.seats % 8; rest > 0 {
		bitmap[len(bitmap)-1] &= 0xff << (8 - rest)
	}
	s := Snapshot{Event: *e, At: at, Bitmap: bitmap, Free: make([]int64, len(e.Sections)), Sold: o.count}
	for i, sec := range e.Sections {
		s.Free[i] = countBits(bitmap, sec.First, sec.First+sec.Rows*sec.SeatsPerRow)
	}
	s.ETag = s.hash()
	o.last = &s
	return s
}
