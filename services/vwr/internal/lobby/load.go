package lobby

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/room"
)

// DriverStats counts the failures of this replica's work on lobbies.
type DriverStats struct {
	Failures       atomic.Int64 // failed steps of lobbies
	BeaconFailures atomic.Int64 // failed fetches of beacon rounds
}

func (d *Driver) Stats() *DriverStats { return &d.stats }

// Progress returns the progress of each unfinished lobby after the driver's last work on it.
func (d *Driver) Progress() map[Key]LobbyProgress {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.states)
}

func (r *lobbySnapshot) progress(ctx context.Context) LobbyProgress {
	p := LobbyProgress{Phase: phaseOf(&r.shuffle, r.terms, r.now), KeyMissing: r.missing != nil, Void: r.voidWhileRoomOpen()}
	if r.current && !r.shuffle.isFinal() {
		p.Late = max(0, r.now.Sub(r.terms.commitment.Announced()))
	}
	if r.statement != nil {
		p.Joined = r.statement.Count
	} else {
		p.Joined = r.countJoined(ctx, r.shuffle.Key)
	}
	return p
}

// countJoined returns a lobby's number of entries for operators, at most countInterval old.
func (d *Driver) countJoined(ctx context.Context, k Key) int64 {
	now := d.now()
	d.mu.Lock()
	last, ok := d.joined[k]
	d.mu.Unlock()
	if ok && now.Sub(last.at) < countInterval {
		return last.entries
	}
	// After a failure the last count is used until the next interval.
	if n, err := d.store.Entries.CountEntries(ctx, k); err == nil {
		last.entries = n
	}
	last.at = now
	d.mu.Lock()
	defer d.mu.Unlock()
	d.joined[k] = last
	return last.entries
}

// loadRanks computes the positions of a stored shuffled lobby, and keeps them in memory.
func (s *Service) loadRanks(ctx context.Context, k Key) error {
	sh, found, err := s.shuffles.Shuffle(ctx, k)
	if err != nil {
		return err
	}
	if !found || sh.Seed == "" {
		return fmt.Errorf("lobby %s: no result is stored", k)
	}
	t, err := parseTerms(&sh)
	if err != nil {
		return err
	}
	st, err := fairdraw.ParseStatement([]byte(sh.Statement))
	if err != nil {
		return fmt.Errorf("statement of %s: %w", k, err)
	}
	computed, err := s.computeRanks(ctx, &sh, t, &st)
	if err != nil {
		return err
	}
	if computed.orderHash != sh.OrderHash {
		return fmt.Errorf("lobby %s: the order has another hash than the published one", k)
	}
	s.memory.update(k, func(r *cachedLobby) { r.ranks = computed })
	return nil
}

// computeRanks computes, once, the positions of a lobby's entries from the seed of sh. It keeps
// them apart from the ranks with which users are answered, since nobody may learn a position before
// the shuffle is published.
func (s *Service) computeRanks(ctx context.Context, sh *Shuffle, t *terms, st *fairdraw.Statement) (*ranks, error) {
	key, err := sh.orderKey(t.hash, st.Root)
	if err != nil {
		return nil, err
	}
	if computed := s.memory.get(sh.Key).unpublished; computed != nil && computed.key == key {
		return computed, nil
	}
	entries, err := s.loadEntries(ctx, sh.Key, st)
	if err != nil {
		return nil, err
	}
	computed := rankEntries(key, entries)
	s.memory.update(sh.Key, func(r *cachedLobby) { r.unpublished = computed })
	return computed, nil
}

// orderKey derives the key that determines the order of the entries, from the seed and, if there is
// a beacon, the value of its round.
func (s *Shuffle) orderKey(commitment, root fairdraw.Hash) (fairdraw.Hash, error) {
	seed, err := fairdraw.ParseHash(s.Seed)
	if err != nil {
		return fairdraw.Hash{}, fmt.Errorf("seed of %s: %w", s.Key, err)
	}
	var value []byte
	if s.Beacon != nil {
		if value, err = hex.DecodeString(s.Beacon.Randomness); err != nil {
			return fairdraw.Hash{}, fmt.Errorf("value of %s: %w", s.Key, err)
		}
	}
	return fairdraw.Key(seed, commitment, root, value), nil
}

// phaseOf returns the published phase of a shuffle.
func phaseOf(s *Shuffle, t *terms, now time.Time) fairdraw.Phase {
	switch {
	case s.VoidedAt != 0:
		return fairdraw.PhaseVoid
	case s.Seed != "":
		return fairdraw.PhaseSettled
	case s.Signature != "":
		return fairdraw.PhaseRoot
	case !now.Before(t.commitment.Cutoff()):
		return fairdraw.PhaseClosed
	default:
		return fairdraw.PhaseOpen
	}
}

// ReadFigures returns the number of entries and the phase of a round's lobby, for operators.
func (s *Service) ReadFigures(ctx context.Context, c room.Counters) (joined int64, p fairdraw.Phase, err error) {
	if !c.Lobby.Exists() {
		return 0, "", nil
	}
	k := Key{c.EventID, c.Round}
	sh, found, err := s.shuffles.Shuffle(ctx, k)
	if err != nil || !found {
		return 0, "", err
	}
	t, err := parseTerms(&sh)
	if err != nil {
		return 0, "", room.ErrUnavailable.Wrap(err)
	}
	joined, err = s.entries.CountEntries(ctx, k)
	return joined, phaseOf(&sh, t, s.now()), err
}
