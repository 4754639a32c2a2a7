package request

import (
	"context"
	"sync"
	"time"
)

const (
	// refreshEvery is the time between two reads of the list. knownFor is how long a replica uses what
	// it has read. So a replica stops sending new requests to a promotion at once within a second
	// after another replica has listed it, even if the list cannot be read for a while.
	refreshEvery = 500 * time.Millisecond
	knownFor     = 2 * time.Second
)

// UnsentPromotion is a promotion with requests that SQS has not accepted (none since DrainedAt).
type UnsentPromotion struct {
	EventID   string
	DrainedAt int64 // epoch ms; 0: not drained
}

// UnsentStore stores the list of UnsentPromotions, which all replicas share.
type UnsentStore interface {
	Unsent(ctx context.Context) ([]UnsentPromotion, error)
	// AddUnsent lists a promotion as not drained: some of its requests must still be sent.
	AddUnsent(ctx context.Context, event string) error
	// SetDrained does nothing if the promotion is not listed, RemoveUnsent if it was changed.
	SetDrained(ctx context.Context, event string, at int64) error
	RemoveUnsent(ctx context.Context, p UnsentPromotion) error
}

// UnsentList is a replica's list of the promotions with requests that SQS has not accepted. New
// requests to them are not sent at once: Sweeper.Drain sends them after those that wait already.
type UnsentList struct {
	store UnsentStore
	now   func() time.Time

	mu     sync.Mutex
	known  map[string]unsentState
	listed bool
}

// unsentState is what this replica knows of a promotion with unsent requests.
type unsentState struct {
	until  time.Time // this state is valid until then
	stored bool      // the promotion is in the stored list
}

// NewUnsent returns an UnsentList that is empty until Refresh or Add is called.
func NewUnsent(store UnsentStore, now func() time.Time) *UnsentList {
	return &UnsentList{store: store, now: now, known: map[string]unsentState{}}
}

// Has reports whether requests to a promotion wait to be sent.
func (u *UnsentList) Has(event string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now().Before(u.known[event].until)
}

// Add adds a promotion to the list, at this replica even if the shared list cannot be written.
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
