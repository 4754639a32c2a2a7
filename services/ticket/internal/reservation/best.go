package reservation

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"urr.guru/services/ticket/internal/event"
)

// maxAttempts is how often seats are picked before the request is refused with ErrTryAgain.
const maxAttempts = 6

// picker chooses seats from snapshots. Concurrent requests would all choose the same seats of a
// snapshot, so it remembers which seats it handed out since the snapshot was taken. Conflicts with
// other replicas become rarer with each attempt: it chooses at random among more and more
// candidates.
type picker struct {
	mu     sync.Mutex
	events map[string]*handedOut
}

// handedOut is what is free in a snapshot, without the seats that were handed out since.
type handedOut struct {
	since            time.Time
	snapshot, bitmap []byte
	// rows is by how many rows from the front of a section a search for that many adjacent seats may
	// begin: those before have none.
	rows map[search]int
}

type search struct {
	section string
	n       int
}

func newPicker() *picker { return &picker{events: make(map[string]*handedOut)} }

func (g *handedOut) free(i int) bool { return g.bitmap[i/8]&(0x80>>(i%8)) != 0 }

// pick returns n seats (indexes) of the section that are free in the snapshot and not handed out
// yet, nil when there are none. Attempt 0 takes the best seats, later attempts any of the best 4,
// 16, 64 and so on.
func (p *picker) pick(snap *event.Snapshot, sec event.Section, n int, adjacent bool, try int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.events[snap.Event.ID]
	if g == nil || g.since.Before(snap.At) || len(g.bitmap) != len(snap.Bitmap) {
		g = &handedOut{since: snap.At, snapshot: snap.Bitmap, bitmap: bytes.Clone(snap.Bitmap), rows: make(map[search]int)}
		p.events[snap.Event.ID] = g
	}
	var seats []int
	if candidates := 1 << (2 * min(try, 5)); adjacent {
		seats = g.pickAdjacent(sec, n, candidates)
	} else {
		seats = pickAny(sec, n, candidates, g.free)
	}
	for _, i := range seats {
		g.bitmap[i/8] &^= 0x80 >> (i % 8)
	}
	return seats
}

// release returns seats whose request failed for a reason other than the seats.
func (p *picker) release(eventID string, seats []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.events[eventID]; g != nil {
		for _, i := range seats {
			if i/8 < len(g.bitmap) {
				g.bitmap[i/8] |= g.snapshot[i/8] & (0x80 >> (i % 8))
			}
		}
		clear(g.rows)
	}
}

// pickAdjacent chooses n adjacent seats: rows from the front, in each row the run nearest to the
// middle. A run that leaves a single free seat beside it is a last resort, since single seats
// hardly sell.
func (g *handedOut) pickAdjacent(sec event.Section, n, candidates int) []int {
	var withoutSingle, withSingle []int // the first seat of each candidate
	offsets := middleOut(sec.SeatsPerRow - n + 1)
	wanted := search{section: sec.Name, n: n}
	for row := g.rows[wanted]; row < sec.Rows; row++ {
		first := sec.First + row*sec.SeatsPerRow
		inRow := func(i int) bool { return i >= first && i < first+sec.SeatsPerRow && g.free(i) }
		for _, offset := range offsets {
			start := first + offset
			switch {
			case !allFree(start, n, g.free):
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
			g.rows[wanted] = row + 1
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

// leavesSingleSeat reports whether seat i is free and its neighbour in that direction is not.
func leavesSingleSeat(i, direction int, free func(int) bool) bool {
	return free(i) && !free(i+direction)
}

// pickAny chooses any n seats, the best first.
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

// middleOut lists 0 to n−1 from the middle outwards; nothing for n below 1.
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
