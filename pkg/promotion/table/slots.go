package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"urr.guru/pkg/dynamo"
)

const (
	countBlocks = 25 // one per process; further processes share blocks
	blockSlots  = 4  // concurrent transactions of a process with figures of one event
	// blockRenewal is the time between two renewals of a block's lease, blockLife how long it lasts.
	blockRenewal = 30 * time.Second
	blockLife    = 2 * blockRenewal
	// blockRetry is the time until the next try to renew a lease after one that failed.
	blockRetry = 5 * time.Second
)

// errNoSlots is the error of a transaction with figures of a Store that NewStore has not made.
var errNoSlots = errors.New("the store cannot write figures: it was not made by NewStore")

// figureSlots gives each concurrent writer of an event's figures its own item, since DynamoDB
// cancels transactions that write one item at the same time. A process leases a block of slots, and
// each of its transactions reserves the lowest free slot of each event, or waits for one.
//
// The leases are numbered, and lease n is for block n % countBlocks. A process takes the lowest free
// number. So blocks are shared only while each has a process, and the least used one first.
type figureSlots struct {
	leases dynamo.Leases

	leasing chan struct{} // holds a value while a caller uses the fields below
	number  int           // of the lease; -1: there has been none
	until   time.Time     // when it is to be renewed

	mu      sync.Mutex
	used    map[string]uint8 // a bit for each slot in use, by event
	waiting []*reservation   // in the order of their calls
}

// reservation has a slot of each of its events, or none yet.
type reservation struct {
	events []string
	taken  map[string]int // slot of the block by event; nil: still waiting
	ready  chan struct{}  // closed when taken is set
}

func newFigureSlots(leases dynamo.Leases) *figureSlots {
	leases.Life = blockLife
	return &figureSlots{leases: leases, leasing: make(chan struct{}, 1), number: -1, used: map[string]uint8{}}
}

// reserve reserves a slot of each event until release is called. It waits until all of them are
// free, and reserves none before. It fails when ctx ends first.
func (s *figureSlots) reserve(ctx context.Context, events []string) (slots map[string]int, release func(), err error) {
	if len(events) == 0 {
		return nil, func() {}, nil
	}
	if s == nil {
		return nil, nil, errNoSlots
	}
	block, err := s.leasedBlock(ctx)
	if err != nil {
		return nil, nil, err
	}
	r := &reservation{events: events, ready: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, r)
	s.assign()
	s.mu.Unlock()
	select {
	case <-r.ready:
	case <-ctx.Done():
		s.release(r)
		return nil, nil, fmt.Errorf("wait for a slot: %w", ctx.Err())
	}
	slots = make(map[string]int, len(events))
	for event, n := range r.taken {
		slots[event] = block*blockSlots + n
	}
	return slots, func() { s.release(r) }, nil
}

// assign gives slots to the reservations that wait, in their order. A reservation that has to wait
// for an event keeps later ones from the slots of all its events, so that it does not starve. The
// caller holds s.mu.
func (s *figureSlots) assign() {
	awaited := map[string]bool{}
	s.waiting = slices.DeleteFunc(s.waiting, func(r *reservation) bool {
		if slices.ContainsFunc(r.events, func(event string) bool { return awaited[event] || s.free(event) == blockSlots }) {
			for _, event := range r.events {
				awaited[event] = true
			}
			return false
		}
		r.taken = make(map[string]int, len(r.events))
		for _, event := range r.events {
			r.taken[event] = s.free(event)
			s.used[event] |= 1 << r.taken[event]
		}
		close(r.ready)
		return true
	})
}

// free returns the lowest free slot of an event; blockSlots if there is none.
func (s *figureSlots) free(event string) int {
	return min(bits.TrailingZeros8(^s.used[event]), blockSlots)
}

// release frees the slots of a reservation; one that still waits is removed.
func (s *figureSlots) release(r *reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for event, n := range r.taken {
		s.used[event] &^= 1 << n
	}
	maps.DeleteFunc(s.used, func(_ string, used uint8) bool { return used == 0 })
	s.waiting = slices.DeleteFunc(s.waiting, func(w *reservation) bool { return w == r })
	s.assign()
}

// leasedBlock returns the block of this process. While its lease cannot be renewed it keeps the
// block, which another process may get meanwhile: two writers of one slot are harmless but slow.
func (s *figureSlots) leasedBlock(ctx context.Context) (int, error) {
	select {
	case s.leasing <- struct{}{}:
		defer func() { <-s.leasing }()
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for a block of slots: %w", ctx.Err())
	}
	now := s.leases.Now()
	if now.Before(s.until) {
		return s.number % countBlocks, nil
	}
	number, err := s.lease(ctx)
	if err != nil && s.number < 0 {
		return 0, fmt.Errorf("lease a block of slots: %w", err)
	}
	if err != nil {
		s.until = now.Add(blockRetry)
		return s.number % countBlocks, nil
	}
	s.number, s.until = number, now.Add(blockRenewal)
	blocksShared.Set(float64(min(number/countBlocks, 1)))
	return number % countBlocks, nil
}

// lease renews the lease of this process. If there is none, or if its block is shared, it takes the
// lowest free number instead.
func (s *figureSlots) lease(ctx context.Context) (number int, err error) {
	if 0 <= s.number && s.number < countBlocks {
		if ok, err := s.acquire(ctx, s.number); ok || err != nil {
			return s.number, err
		}
	}
	for number := 0; ; number++ {
		if ok, err := s.acquire(ctx, number); ok || err != nil {
			return number, err
		}
	}
}

func (s *figureSlots) acquire(ctx context.Context, number int) (bool, error) {
	return s.leases.Acquire(ctx, fmt.Sprintf("counts-%d", number))
}
