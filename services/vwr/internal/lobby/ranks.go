package lobby

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw"
)

// ranks has the positions of a shuffled lobby's entries: 20 bytes per entry.
type ranks struct {
	entries   fairdraw.Entries
	rank      []uint32 // the position of each entry, from 1
	key       fairdraw.Hash
	orderHash string // the hash of the order, in hex
}

// rankEntries shuffles the entries by the key, and returns the position of each.
func rankEntries(key fairdraw.Hash, entries fairdraw.Entries) *ranks {
	r := &ranks{entries: entries, rank: make([]uint32, entries.Len()), key: key}
	order := sha256.New()
	for i, index := range fairdraw.Order(key, entries) {
		id := entries.At(int(index))
		order.Write(id[:])
		r.rank[index] = uint32(i + 1) //nolint:gosec // far below 2³²: the entries fit in memory
	}
	r.orderHash = hex.EncodeToString(order.Sum(nil))
	return r
}

// positionOf returns the position of an entry, from 1; ok is false if there is no such entry.
func (r *ranks) positionOf(id uuid.UUID) (position int64, ok bool) {
	index, ok := r.entries.Find(id)
	if !ok {
		return 0, false
	}
	return int64(r.rank[index]), true
}

// lobbyMemory has the entries and positions of each event's latest lobby. Unlike a cache, it drops
// nothing by itself, since answers depend on it. Only the driver adds and removes lobbies.
type lobbyMemory struct {
	mu      sync.Mutex
	lobbies map[string]*cachedLobby
}

// cachedLobby is what a replica keeps in memory of one lobby.
type cachedLobby struct {
	key         Key
	entries     fairdraw.Entries
	listed      bool   // the entries are final
	ranks       *ranks // nil: not shuffled yet
	unpublished *ranks // ranks that were computed before the shuffle was published
	void        bool   // no entries are accepted, although the room is open
}

func newLobbyMemory() *lobbyMemory { return &lobbyMemory{lobbies: make(map[string]*cachedLobby)} }

// get returns a copy of a lobby's data. If the lobby is not in memory, the copy has only the key.
func (m *lobbyMemory) get(k Key) cachedLobby {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.lobbies[k.EventID]; r != nil && r.key == k {
		return *r
	}
	return cachedLobby{key: k}
}

// update changes a lobby's data, unless a later round of the event is in memory.
func (m *lobbyMemory) update(k Key, change func(*cachedLobby)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.lobbies[k.EventID]
	switch {
	case r == nil || r.key.Round < k.Round:
		r = &cachedLobby{key: k}
		m.lobbies[k.EventID] = r
	case r.key != k:
		return
	}
	change(r)
}

func (m *lobbyMemory) retain(keep func(Key) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for event, r := range m.lobbies {
		if !keep(r.key) {
			delete(m.lobbies, event)
		}
	}
}

// verifyEntries checks that entries read from the store agree with the signed statement.
func verifyEntries(k Key, entries fairdraw.Entries, s *fairdraw.Statement) error {
	if int64(entries.Len()) != s.Count {
		return fmt.Errorf("lobby %s: %d entries are listed, %d were signed", k, entries.Len(), s.Count)
	}
	if root := entries.Root(); !bytes.Equal(root[:], s.Root[:]) {
		return fmt.Errorf("lobby %s: the listed entries have another root than the signed one", k)
	}
	return nil
}
