// Package roomtest has an in-memory store for tests, and the test suite for every store.
package roomtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/vwr/internal/room"
)

// Store combines the interfaces of a store of tier 1.
type Store interface {
	room.RoomStore
	room.CounterSource
	room.PositionStore
}

var (
	_ Store              = (*Memory)(nil)
	_ room.ClaimRecorder = (*Memory)(nil)
	_ room.ClaimCounter  = (*Memory)(nil)
)

// ErrDown is returned by a Memory after SetDown(true).
var ErrDown = errors.New("roomtest: the store is down")

// Memory is an in-memory store of tier 1 for tests.
type Memory struct {
	mu         sync.Mutex
	events     map[string]room.Counters
	records    map[positionID]room.Record
	claimed    map[positionID]bool
	counts     map[roundKey]int64 // the number of claims
	down       bool
	claimsDown bool // makes only the claims fail
	now        func() time.Time
}

type positionID struct {
	eventID string
	id      uuid.UUID
}

type roundKey struct {
	eventID string
	round   room.Round
}

// NewMemory returns an empty store.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		events: make(map[string]room.Counters), records: make(map[positionID]room.Record), claimed: make(map[positionID]bool),
		counts: make(map[roundKey]int64), now: now,
	}
}

// SetDown makes all calls fail, or succeed again.
func (m *Memory) SetDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// SetClaimsDown makes claims fail, or succeed again. Failed claims are lost.
func (m *Memory) SetClaimsDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claimsDown = down
}

// DeleteEvent removes an event, as if the table had been recreated.
func (m *Memory) DeleteEvent(eventID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.events, eventID)
}

func (m *Memory) Read(_ context.Context, eventID string) (room.Counters, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return room.Counters{}, false, ErrDown
	}
	c, ok := m.events[eventID]
	return c, ok, nil
}

func (m *Memory) ReadMany(_ context.Context, eventIDs []string) ([]room.Counters, error) {
	return m.collect(func(c room.Counters) bool { return slices.Contains(eventIDs, c.EventID) })
}

func (m *Memory) ReadActive(_ context.Context, also []string) ([]room.Counters, error) {
	return m.collect(func(c room.Counters) bool { return c.Active || slices.Contains(also, c.EventID) })
}

func (m *Memory) collect(wanted func(room.Counters) bool) ([]room.Counters, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, ErrDown
	}
	var out []room.Counters
	for _, c := range m.events {
		if wanted(c) {
			out = append(out, c)
		}
	}
	return out, nil
}

// change writes an event's counters if the condition holds.
func (m *Memory) change(eventID string, condition func(room.Counters, bool) bool, write func(*room.Counters)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return ErrDown
	}
	c, found := m.events[eventID]
	if !condition(c, found) {
		return room.ErrStale
	}
	write(&c)
	c.UpdatedAt = m.now()
	m.events[eventID] = c
	return nil
}

func (m *Memory) SetServing(_ context.Context, seen room.Counters, to int64) error {
	return m.change(seen.EventID, func(c room.Counters, _ bool) bool {
		return c.Active && c.Round == seen.Round && c.Serving == seen.Serving && c.Issued >= to
	}, func(c *room.Counters) { c.Serving = to })
}

func (m *Memory) Start(_ context.Context, next room.Counters, earlier room.Round, _ *room.LobbyOpening) error {
	return m.change(next.EventID, func(c room.Counters, _ bool) bool { return !c.Active && c.Round == earlier },
		func(c *room.Counters) { *c = next })
}

func (m *Memory) Configure(_ context.Context, eventID string, round room.Round, s room.Settings) error {
	return m.change(eventID, func(c room.Counters, _ bool) bool { return c.Active && c.Round == round },
		func(c *room.Counters) { c.Settings = s })
}

func (m *Memory) Stop(_ context.Context, eventID string, round room.Round) error {
	return m.change(eventID, func(c room.Counters, _ bool) bool { return c.Active && c.Round == round },
		func(c *room.Counters) { c.Active = false })
}

func (m *Memory) TakePositions(_ context.Context, seen room.Counters, takers []room.Taker) []room.Outcome[room.Record] {
	out := make([]room.Outcome[room.Record], len(takers))
	for i, t := range takers {
		out[i].Value, out[i].Err = m.takePosition(seen, t.Visitor, t.IDs)
	}
	return out
}

func (m *Memory) takePosition(seen room.Counters, visitor string, ids []uuid.UUID) (room.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return room.Record{}, ErrDown
	}
	for _, id := range ids {
		if r, ok := m.records[positionID{seen.EventID, id}]; ok {
			return r, nil
		}
	}
	c := m.events[seen.EventID]
	if !c.Active || c.Round != seen.Round {
		return room.Record{}, room.ErrStale
	}
	c.Issued++
	m.events[seen.EventID] = c
	r := room.Record{EventID: seen.EventID, Round: seen.Round, RequestID: ids[0], Position: c.Issued, Visitor: visitor}
	m.records[positionID{seen.EventID, ids[0]}] = r
	return r, nil
}

func (m *Memory) FindRecord(_ context.Context, c room.Counters, id uuid.UUID) (room.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return room.Record{}, false, ErrDown
	}
	r, ok := m.records[positionID{c.EventID, id}]
	return r, ok, nil
}

func (m *Memory) RecordClaim(r room.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claimsDown {
		return
	}
	k := positionID{r.EventID, r.RequestID}
	if !m.claimed[k] && m.events[r.EventID].Round == r.Round {
		m.claimed[k] = true
		m.counts[roundKey{r.EventID, r.Round}]++
	}
}

func (m *Memory) Claimed(_ context.Context, eventID string, round room.Round) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down || m.claimsDown {
		return 0, ErrDown
	}
	return m.counts[roundKey{eventID, round}], nil
}

func (m *Memory) ClaimCount(ctx context.Context, eventID string, round room.Round) (int64, error) {
	return m.Claimed(ctx, eventID, round)
}
