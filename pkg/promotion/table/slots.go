package table

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"sync"
	"time"

	"urr.guru/pkg/dynamo"
)

const (
	countBlocks = 16 // one per process; further processes share blocks
	blockSlots  = 4  // concurrent transactions of a process with figures of one event
	// blockRenewal is the time between two renewals of a block's lease, blockLife how long it lasts.
	blockRenewal = 30 * time.Second
	blockLife    = 2 * blockRenewal
)

// Slots gives each concurrent writer of an event's figures its own item, since DynamoDB cancels
// transactions that write one item at the same time. A process leases a block of slots, and uses
// the lowest free slot for a transaction. Two writers of one slot are harmless but slow.
type Slots struct {
	leases dynamo.Leases

	leasing sync.Mutex
	block   int
	until   time.Time

	mu   sync.Mutex
	used map[string]uint8 // a bit for each slot in use, by event
}

// NewSlots makes the Slots of a process, which leases its block of slots through leases.
func NewSlots(leases dynamo.Leases) *Slots {
	leases.Life = blockLife
	return &Slots{leases: leases, used: map[string]uint8{}}
}

// reserve reserves a slot for each event until release is called. A nil Slots returns the first
// slot for every event.
func (s *Slots) reserve(ctx context.Context, events []string) (slots map[string]int, release func()) {
	slots = make(map[string]int, len(events))
	if s == nil || len(events) == 0 {
		return slots, func() {}
	}
	block := s.leasedBlock(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := make(map[string]uint8, len(events))
	for _, event := range events {
		n := bits.TrailingZeros8(^s.used[event])
		if n < blockSlots {
			taken[event] = 1 << n
			s.used[event] |= 1 << n
		}
		slots[event] = block*blockSlots + n%blockSlots
	}
	return slots, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for event, bit := range taken {
			s.used[event] &^= bit
		}
		maps.DeleteFunc(s.used, func(_ string, used uint8) bool { return used == 0 })
	}
}

// leasedBlock returns the block of this process. If it cannot have a block of its own, it keeps the
// one that it used last.
func (s *Slots) leasedBlock(ctx context.Context) int {
	s.leasing.Lock()
	defer s.leasing.Unlock()
	now := s.leases.Now()
	if now.Before(s.until) {
		return s.block
	}
	s.until = now.Add(blockRenewal)
	for i := range countBlocks {
		block := (s.block + i) % countBlocks
		free, err := s.leases.Acquire(ctx, fmt.Sprintf("counts-%d", block))
		if free {
			s.block = block
		}
		if free || err != nil {
			break
		}
	}
	return s.block
}
