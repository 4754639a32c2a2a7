package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
)

// aisle is the space between two sections on the map, in seats.
const aisle = 2

// Layout is the seat map: the position of every seat, free or not.
type Layout struct {
	Sections []LayoutSection
	// Seats is the number of all seats, and so of the bits of the availability bitmap.
	Seats int
	// ETag changes with every change of the map.
	ETag string
}

// LayoutSection is a section on the map. A section of general admission has no rows.
type LayoutSection struct {
	Name string
	Rows []LayoutRow
}

// LayoutRow is a row of seats on the map. Its seat n (from 1) is at (X + n − 1, Y); the stage is
// above Y = 0.
type LayoutRow struct {
	Name  string
	Seats int
	X, Y  int
}

// Seats returns the number of seats in sections that are sold by seat.
func (e *Event) Seats() (seats int) {
	for _, s := range e.Sections {
		seats += s.Rows * s.SeatsPerRow
	}
	return seats
}

// Layout computes the map from the sections, so that it is never stored. Sections are placed side
// by side in bands; each band is centred, and the first sections are nearest to the stage.
func (e *Event) Layout() Layout {
	l := Layout{Sections: make([]LayoutSection, len(e.Sections)), Seats: e.Seats()}
	for i, s := range e.Sections {
		l.Sections[i] = LayoutSection{Name: s.Name}
	}
	var seated []int // indexes of sections
	for i, s := range e.Sections {
		if s.Seating() == Assigned {
			seated = append(seated, i)
		}
	}
	bands, width := e.bands(seated)
	y := 0
	for _, b := range bands {
		x := (width - b.width) / 2
		for _, i := range b.sections {
			l.Sections[i].Rows = e.Sections[i].layoutRows(x, y)
			x += e.Sections[i].SeatsPerRow + aisle
		}
		y += b.height + aisle
	}
	l.ETag = l.hash()
	return l
}

// band is a horizontal stripe of the map: sections that are side by side.
type band struct {
	sections      []int // indexes of sections
	width, height int
}

// bands distributes the sections with seats over bands, whose width is limited so that the map is
// about 1.5 times as wide as deep. It also returns the width of the widest band.
func (e *Event) bands(seated []int) (bands []band, width int) {
	area := 0
	for _, i := range seated {
		area += (e.Sections[i].SeatsPerRow + aisle) * (e.Sections[i].Rows + aisle)
	}
	limit := int(math.Sqrt(1.5 * float64(area)))
	for _, i := range seated {
		s, last := &e.Sections[i], len(bands)-1
		if last < 0 || bands[last].width+aisle+s.SeatsPerRow > limit {
			bands = append(bands, band{sections: []int{i}, width: s.SeatsPerRow, height: s.Rows})
			continue
		}
		b := &bands[last]
		b.sections, b.width, b.height = append(b.sections, i), b.width+aisle+s.SeatsPerRow, max(b.height, s.Rows)
	}
	for _, b := range bands {
		width = max(width, b.width)
	}
	return bands, width
}

func (s *Section) layoutRows(x, y int) []LayoutRow {
	rows := make([]LayoutRow, s.Rows)
	for r := range rows {
		rows[r] = LayoutRow{Name: strconv.Itoa(r + 1), Seats: s.SeatsPerRow, X: x, Y: y + r}
	}
	return rows
}

func (l *Layout) hash() string {
	h := sha256.New()
	writeNumber := func(n int64) { _ = binary.Write(h, binary.BigEndian, n) } // a hash never fails
	for _, s := range l.Sections {
		writeNumber(int64(len(s.Name)))
		h.Write([]byte(s.Name))
		writeNumber(int64(len(s.Rows)))
		for _, r := range s.Rows {
			writeNumber(int64(r.Seats))
			writeNumber(int64(r.X))
			writeNumber(int64(r.Y))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// SeatID returns the id section-row-number; rows and numbers count from 1.
func SeatID(section string, row, number int) string {
	return section + "-" + strconv.Itoa(row) + "-" + strconv.Itoa(number)
}

// SeatsAt returns the ids of the seats with the given indexes, "" for an index without a seat.
func (e *Event) SeatsAt(indexes []int) []string {
	ids := make([]string, len(indexes))
	for n, index := range indexes {
		for _, s := range e.Sections {
			if i := index - s.First; i >= 0 && i < s.Rows*s.SeatsPerRow {
				ids[n] = SeatID(s.Name, i/s.SeatsPerRow+1, i%s.SeatsPerRow+1)
			}
		}
	}
	return ids
}

func (e *Event) Section(name string) (Section, bool) {
	for _, s := range e.Sections {
		if s.Name == name {
			return s, true
		}
	}
	return Section{}, false
}
