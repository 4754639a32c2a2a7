package reservation

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"urr.guru/services/ticket/internal/event"
)

// maxTries is how often the best seats are picked before the caller is told to try again: once, and five other times.
const maxTries = 6

// picker chooses seats from snapshots. Requests that choose from the same snapshot at the same time would all choose the same seats, so
// it remembers what it gave away since the snapshot was taken; other replicas' choices are met by choosing at random among more and more
// candidates.
type picker struct {
	mu     sync.Mutex
	events map[string]*given
}

// given are the seats (indexes) handed out since a snapshot.
type given struct {
	since time.Time
	seats map[int]struct{}
}

func newPicker() *picker { return &picker{events: make(map[string]*given)} }

// pick returns n seats (indexes) of the section that are free in the snapshot and not given to anyone else, nil when there are none. try
// counts from 0: the first one takes the best, later ones any of the best 4, 16, 64…
func (p *picker) pick(snap *event.Snapshot, sec event.Section, n int, adjacent bool, try int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.events[snap.Event.ID]
	if g == nil || g.since.Before(snap.At) {
		g = &given{since: snap.At, seats: make(map[int]struct{})}
		p.events[snap.Event.ID] = g
	}
	free := func(i int) bool {
		_, gone := g.seats[i]
		return !gone && snap.IsFree(i)
	}
	var seats []int
	if spread := 1 << (2 * min(try, 5)); adjacent {
		seats = pickRun(sec, n, spread, free)
	} else {
		seats = pickLoose(sec, n, spread, free)
	}
	for _, i := range seats {
		g.seats[i] = struct{}{}
	}
	return seats
}

// giveBack takes seats back that were picked for a request that then failed for another reason than theirs.
func (p *picker) giveBack(eventID string, seats []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.events[eventID]; g != nil {
		for _, i := range seats {
			delete(g.seats, i)
		}
	}
}

// pickRun chooses n seats next to each other: rows from the front, in a row the run nearest to its middle. A run that would leave a
// single seat between others is taken only when there is no other: hardly anybody buys those.
func pickRun(sec event.Section, n, spread int, free func(int) bool) []int {
	var clean, wasteful []int // the first seat of each candidate
	for row := range sec.Rows {
		first := sec.First + row*sec.SeatsPerRow
		inRow := func(i int) bool { return i >= first && i < first+sec.SeatsPerRow && free(i) }
		for _, offset := range fromTheMiddle(sec.SeatsPerRow - n + 1) {
			start := first + offset
			switch {
			case !allFree(start, n, free):
			case single(start-1, -1, inRow) || single(start+n, 1, inRow):
				wasteful = append(wasteful, start)
			default:
				clean = append(clean, start)
			}
		}
		if len(clean) >= spread {
			break
		}
	}
	if len(clean) == 0 {
		clean = wasteful
	}
	if len(clean) == 0 {
		return nil
	}
	start := clean[rand.N(min(spread, len(clean)))] //nolint:gosec // spreads contention, nothing secret
	seats := make([]int, n)
	for i := range seats {
		seats[i] = start + i
	}
	return seats
}

// single reports whether seat i is free and its next one in that direction is not.
func single(i, direction int, free func(int) bool) bool { return free(i) && !free(i+direction) }

// pickLoose chooses any n seats, the best first.
func pickLoose(sec event.Section, n, spread int, free func(int) bool) []int {
	var seats []int
	for row := range sec.Rows {
		first := sec.First + row*sec.SeatsPerRow
		for _, i := range fromTheMiddle(sec.SeatsPerRow) {
			if free(first + i) {
				seats = append(seats, first+i)
			}
		}
		if len(seats) >= n+spread-1 {
			break
		}
	}
	if len(seats) < n {
		return nil
	}
	seats = seats[:min(len(seats), n+spread-1)]
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

// fromTheMiddle lists 0 to n−1 from the middle outwards; nothing for n below 1.
func fromTheMiddle(n int) []int {
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
