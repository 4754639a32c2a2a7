package reservation

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"urr.guru/services/ticket/internal/event"
)

// maxAttempts is how many times seats are chosen for one request, before it fails with ErrTryAgain.
const maxAttempts = 6

// picker chooses seats from snapshots. Concurrent requests would all choose the same seats of a
// snapshot, so the picker remembers the seats that it has chosen since the snapshot was taken. Each
// further attempt chooses at random among more candidates, so that conflicts with other replicas
// become rarer.
type picker struct {
	mu     sync.Mutex
	events map[string]*freeSeats
}

// freeSeats has the seats of an event that are free in a snapshot and were not chosen since.
type freeSeats struct {
	at               time.Time // of the snapshot
	snapshot, bitmap []byte    // bitmaps of the snapshot's free seats, and of those not chosen since
	// firstRow has, by section and n, the first row that may have n adjacent free seats.
	firstRow map[adjacentSearch]int
}

// adjacentSearch is a search for n adjacent seats of a section.
type adjacentSearch struct {
	section string
	n       int
}

func newPicker() *picker { return &picker{events: make(map[string]*freeSeats)} }

func (f *freeSeats) isFree(i int) bool { return f.bitmap[i/8]&(0x80>>(i%8)) != 0 }

// pick returns the indexes of n free seats of the section that it has not chosen yet; nil when
// there are fewer. Attempt 0 takes the best seats; later attempts choose at random among the best
// 4, 16, 64 and so on.
func (p *picker) pick(snap *event.Snapshot, sec event.Section, n int, adjacent bool, attempt int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.events[snap.Event.ID]
	if f == nil || f.at.Before(snap.At) || len(f.bitmap) != len(snap.Bitmap) {
		f = &freeSeats{at: snap.At, snapshot: snap.Bitmap, bitmap: bytes.Clone(snap.Bitmap), firstRow: make(map[adjacentSearch]int)}
		p.events[snap.Event.ID] = f
	}
	var seats []int
	if candidates := 1 << (2 * min(attempt, 5)); adjacent {
		seats = f.pickAdjacent(sec, n, candidates)
	} else {
		seats = pickAny(sec, n, candidates, f.isFree)
	}
	for _, i := range seats {
		f.bitmap[i/8] &^= 0x80 >> (i % 8)
	}
	return seats
}

// release makes chosen seats available again, after their request failed although they were free.
func (p *picker) release(eventID string, seats []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.events[eventID]; f != nil {
		for _, i := range seats {
			if i/8 < len(f.bitmap) {
				f.bitmap[i/8] |= f.snapshot[i/8] & (0x80 >> (i % 8))
			}
		}
		clear(f.firstRow)
	}
}

// pickAdjacent chooses n adjacent seats, in the rows nearest to the stage and as near as possible
// to the middle of the row. Seats that leave a single free seat beside them are chosen only if
// there are no others, since single seats hardly sell.
func (f *freeSeats) pickAdjacent(sec event.Section, n, candidates int) []int {
	var withoutSingle, withSingle []int // the first seat of each candidate
	offsets := middleOut(sec.SeatsPerRow - n + 1)
	search := adjacentSearch{section: sec.Name, n: n}
	for row := f.firstRow[search]; row < sec.Rows; row++ {
		first := sec.First + row*sec.SeatsPerRow
		inRow := func(i int) bool { return i >= first && i < first+sec.SeatsPerRow && f.isFree(i) }
		for _, offset := range offsets {
			start := first + offset
			switch {
			case !allFree(start, n, f.isFree):
			case leavesSingleSeat(start-1, -1, inRow) || leavesSingleSeat(start+n, 1, inRow):
				withSingle = append(withSingle, start)
			default:
				withoutSingle = append(withoutSingle, start)
			}
		}
		if len(withoutSingle) >= candidates {
			break
		}
		if len(withoutSingle)+len(withSingle) == 0 {
			f.firstRow[search] = row + 1
		}
	}
	if len(withoutSingle) == 0 {
		withoutSingle = withSingle
	}
	if len(withoutSingle) == 0 {
		return nil
	}
	start := withoutSingle[rand.N(min(candidates, len(withoutSingle)))] //nolint:gosec // spreads contention, nothing secret
	seats := make([]int, n)
	for i := range seats {
		seats[i] = start + i
	}
	return seats
}

// hasAdjacent reports whether n adjacent seats of a section are free in a snapshot, even if they
// were chosen for other requests since.
func hasAdjacent(snap *event.Snapshot, section string, n int) bool {
	sec, _ := snap.Event.Section(section)
	whole := freeSeats{bitmap: snap.Bitmap, firstRow: make(map[adjacentSearch]int)}
	return whole.pickAdjacent(sec, n, 1) != nil
}

// leavesSingleSeat reports whether seat i is free and its neighbour in that direction (±1) is not.
func leavesSingleSeat(i, direction int, free func(int) bool) bool {
	return free(i) && !free(i+direction)
}

// pickAny chooses n seats, adjacent or not, among the best n−1+candidates.
func pickAny(sec event.Section, n, candidates int, free func(int) bool) []int {
	var seats []int
	for row := range sec.Rows {
		first := sec.First + row*sec.SeatsPerRow
		for _, i := range middleOut(sec.SeatsPerRow) {
			if free(first + i) {
				seats = append(seats, first+i)
			}
		}
		if len(seats) >= n+candidates-1 {
			break
		}
	}
	if len(seats) < n {
		return nil
	}
	seats = seats[:min(len(seats), n+candidates-1)]
	rand.Shuffle(len(seats), func(i, j int) { seats[i], seats[j] = seats[j], seats[i] })
	seats = seats[:n]
	slices.Sort(seats)
	return seats
}

func allFree(start, n int, free func(int) bool) bool {
	for i := start; i < start+n; i++ {
		if !free(i) {
			return false
		}
	}
	return true
}

// middleOut returns the numbers 0 to n−1 from the middle outwards; nil for n below 1.
func middleOut(n int) []int {
	if n <= 0 {
		return nil
	}
	order := make([]int, 0, n)
	for left, right := (n-1)/2, (n-1)/2+1; left >= 0 || right < n; left, right = left-1, right+1 {
		if left >= 0 {
			order = append(order, left)
		}
		if right < n {
			order = append(order, right)
		}
	}
	return order
}
