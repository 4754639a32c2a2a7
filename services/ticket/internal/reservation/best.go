package reservation

import (
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

// handedOut are the seats (indexes) handed out since a snapshot.
type handedOut struct {
	since time.Time
	seats map[int]struct{}
}

func newPicker() *picker { return &picker{events: make(map[string]*handedOut)} }

// pick returns n seats (indexes) of the section that are free in the snapshot and not handed out
// yet, nil when there are none. Attempt 0 takes the best seats, later attempts any of the best 4,
// 16, 64 and so on.
func (p *picker) pick(snap *event.Snapshot, sec event.Section, n int, adjacent bool, try int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.events[snap.Event.ID]
	if g == nil || g.since.Before(snap.At) {
		g = &handedOut{since: snap.At, seats: make(map[int]struct{})}
		p.events[snap.Event.ID] = g
	}
	free := func(i int) bool {
		_, handed := g.seats[i]
		return !handed && snap.IsFree(i)
	}
	var seats []int
	if candidates := 1 << (2 * min(try, 5)); adjacent {
		seats = pickAdjacent(sec, n, candidates, free)
	} else {
		seats = pickAny(sec, n, candidates, free)
	}
	for _, i := range seats {
		g.seats[i] = struct{}{}
	}
	return seats
}

// release returns seats whose request failed for a reason other than the seats.
func (p *picker) release(eventID string, seats []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.events[eventID]; g != nil {
		for _, i := range seats {
			delete(g.seats, i)
		}
	}
}

// pickAdjacent chooses n adjacent seats: rows from the front, in each row the run nearest to the
// middle. A run that leaves a single free seat beside it is a last resort, since single seats
// hardly sell.
func pickAdjacent(sec event.Section, n, candidates int, free func(int) bool) []int {
	var withoutSingle, withSingle []int // the first seat of each candidate
	for row := range sec.Rows {
		first := sec.First + row*sec.SeatsPerRow
		inRow := func(i int) bool { return i >= first && i < first+sec.SeatsPerRow && free(i) }
		for _, offset := range middleOut(sec.SeatsPerRow - n + 1) {
			start := first + offset
			switch {
			case !allFree(start, n, free):
			case leavesSingleSeat(start-1, -1, inRow) || leavesSingleSeat(start+n, 1, inRow):
				withSingle = append(withSingle, start)
			default:
				withoutSingle = append(withoutSingle, start)
			}
		}
		if len(withoutSingle) >= candidates {
			break
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
