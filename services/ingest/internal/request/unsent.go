package request

import (
	"context"
	"sync"
	"time"
)

const (
	// refreshEvery is the time between two reads of the list, knownFor is how long a replica relies on
	// what it has read. So a replica stops sending new requests to a promotion within a second after
	// another replica has listed it, even if the list cannot be read for a while.
	refreshEvery = 500 * time.Millisecond
	knownFor     = 2 * time.Second
)

// UnsentPromotion is a promotion with requests that the queue has not taken (none since DrainedAt).
type UnsentPromotion struct {
	EventID   string
	DrainedAt int64 // epoch ms; 0: not drained
}

// UnsentStore keeps the list of UnsentPromotions, which all replicas share.
type UnsentStore interface {
	Unsent(ctx context.Context) ([]UnsentPromotion, error)
	// AddUnsent lists a promotion as not drained: some of its requests must still be sent.
	AddUnsent(ctx context.Context, event string) error
	// SetDrained and RemoveUnsent do nothing if the promotion is not listed, or not as it was read.
	SetDrained(ctx context.Context, event string, at int64) error
	RemoveUnsent(ctx context.Context, p UnsentPromotion) error
}

// UnsentList knows the promotions with requests that the queue has not taken. New requests to these
// promotions are not sent at once: Sweeper.Drain sends them behind those that wait.
type UnsentList struct {
	store UnsentStore
	now   func() time.Time

	mu     sync.Mutex
	known  map[string]unsentState
	listed bool
}

// unsentState is what a replica knows of one promotion with unsent requests.
type unsentState struct {
	until  time.Time // the time until which this state counts
	stored bool      // the promotion is in the stored list
}

// NewUnsent returns an UnsentList that knows no promotion until Refresh is called.
func NewUnsent(store UnsentStore, now func() time.Time) *UnsentList {
	return &UnsentList{store: store, now: now, known: map[string]unsentState{}}
}

// Has reports whether requests of a promotion wait for the queue.
func (u *UnsentList) Has(event string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now().Before(u.known[event].until)
}

// Add adds a promotion to the list. This replica knows it at once, even if the list is not stored.
func (u *UnsentList) Add(ctx context.Context, event string) error {
	u.mu.Lock()
	state := u.known[event]
	stored := state.stored && u.now().Before(state.until)
	u.known[event], u.listed = unsentState{until: u.now().Add(knownFor), stored: true}, true
	u.mu.Unlock()
	if stored {
		return nil
	}
	err := u.store.AddUnsent(ctx, event)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.known[event] = unsentState{until: u.known[event].until}
	}
	return err
}

// Refresh reads and returns the list of promotions that all replicas share.
func (u *UnsentList) Refresh(ctx context.Context) ([]UnsentPromotion, error) {
	all, err := u.store.Unsent(ctx)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range all {
		if p.DrainedAt != 0 {
			delete(u.known, p.EventID)
		} else {
			u.known[p.EventID] = unsentState{until: u.now().Add(knownFor), stored: true}
		}
	}
	for event, state := range u.known {
		if !u.now().Before(state.until) {
			delete(u.known, event)
		}
	}
	u.listed = len(all) > 0
	return all, nil
}

// Listed reports whether the list has promotions, drained or not.
func (u *UnsentList) Listed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.listed
}

// markDrained records that a promotion is drained: its new requests are sent at once again.
func (u *UnsentList) markDrained(ctx context.Context, event string) error {
	if err := u.store.SetDrained(ctx, event, u.now().UnixMilli()); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, event)
	return nil
}
