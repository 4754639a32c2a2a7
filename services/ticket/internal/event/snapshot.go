package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"slices"
	"time"
)

// Snapshot is an event at one moment, with its free places. Expired holds count as free.
type Snapshot struct {
	Event Event
	// At is the database's time when the snapshot was taken.
	At time.Time
	// Bitmap has bit i (most significant first within a byte) set when the seat with index i is
	// free. It is empty for general admission.
	Bitmap []byte
	// Free has the number of free places of each section, in the event's order.
	Free []int64
	// Sold is the number of places in all sections that are sold, kept by the organiser or given back.
	Sold int64
	// ETag is a hash of Bitmap and Free.
	ETag string
	// Unchecked says, after a change, that it was not known what the payment providers take.
	Unchecked bool
}

// NewSnapshotFromCounts makes a snapshot without a bitmap from the counts of the sections. It is
// used for events with general admission, and for lists of events.
func NewSnapshotFromCounts(e Event, at time.Time, counts Counts) Snapshot {
	s := Snapshot{Event: e, At: at, Free: e.Free(counts)}
	for _, c := range counts {
		s.Sold += c.Sold
	}
	s.ETag = s.hash()
	return s
}

// WithGeneralSections returns a copy of a snapshot of seats that also has the free and sold places
// of the sections without seats, taken from counts.
func (s Snapshot) WithGeneralSections(counts Counts) Snapshot {
	s.Free = slices.Clone(s.Free)
	for i, free := range s.Event.Free(counts) {
		if sec := &s.Event.Sections[i]; sec.Seating() == General {
			s.Free[i] = free
			s.Sold += counts[sec.Name].Sold
		}
	}
	s.ETag = s.hash()
	return s
}

func (s *Snapshot) TotalFree() int64 {
	var n int64
	for _, f := range s.Free {
		n += f
	}
	return n
}

// FreeIn returns the number of free places of a section, 0 when the section does not exist.
func (s *Snapshot) FreeIn(section string) int64 {
	for i, sec := range s.Event.Sections {
		if sec.Name == section {
			return s.Free[i]
		}
	}
	return 0
}

// Status returns the status of the sale at the time of the snapshot.
func (s *Snapshot) Status() Status {
	var capacity int64
	for _, sec := range s.Event.Sections {
		capacity += sec.Capacity
	}
	return s.Event.Sale().Status(s.At, s.Sold >= capacity)
}

// IsFree reports whether the seat with index i is free.
func (s *Snapshot) IsFree(i int) bool { return s.Bitmap[i/8]&(0x80>>(i%8)) != 0 }

// maxAge is how long the cache serves the snapshot. The receiver is a value, since the cache stores
// values.
func (s Snapshot) maxAge() time.Duration {
	if s.Event.Seating != General {
		return seatsAge
	}
	return snapshotAge
}

func (s *Snapshot) hash() string {
	h := sha256.New()
	h.Write(s.Bitmap)
	for _, n := range s.Free {
		_ = binary.Write(h, binary.BigEndian, n) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// countBits counts the set bits with indexes in [from, to).
func countBits(bitmap []byte, from, to int) int64 {
	n := 0
	for i := from; i < to; {
		if i%8 == 0 && i+8 <= to {
			n += bits.OnesCount8(bitmap[i/8])
			i += 8
			continue
		}
		if bitmap[i/8]&(0x80>>(i%8)) != 0 {
			n++
		}
		i++
	}
	return int64(n)
}
