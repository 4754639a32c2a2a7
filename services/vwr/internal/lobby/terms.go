package lobby

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/room"
)

// errNoShuffle means that a lobby's shuffle is not stored (any more).
var errNoShuffle = errors.New("lobby: no shuffle is stored")

// terms are what never changes of a shuffle.
type terms struct {
	commitment fairdraw.Commitment
	hash       fairdraw.Hash
	nonce      fairdraw.Nonce
}

func termsOf(s *Shuffle) (*terms, error) {
	c, hash, err := fairdraw.ParseCommitment([]byte(s.Commitment))
	if err != nil {
		return nil, fmt.Errorf("commitment of %s: %w", s.Key, err)
	}
	return &terms{commitment: c, hash: hash, nonce: s.Nonce}, nil
}

// termsCache keeps the terms of each event's latest known round.
type termsCache struct {
	store Store

	mu    sync.Mutex
	known map[string]cachedTerms // by event
}

type cachedTerms struct {
	round room.Round
	*terms
}

func newTermsCache(s Store) *termsCache {
	return &termsCache{store: s, known: make(map[string]cachedTerms)}
}

// get returns the terms of a lobby. It fails with errNoShuffle.
func (c *termsCache) get(ctx context.Context, k Key) (*terms, error) {
	c.mu.Lock()
	got, ok := c.known[k.EventID]
	c.mu.Unlock()
	if ok && got.round == k.Round {
		return got.terms, nil
	}
	s, found, err := c.store.Shuffle(ctx, k)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoShuffle
	}
	t, err := termsOf(&s)
	if err != nil {
		return nil, room.ErrUnavailable.Wrap(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[k.EventID].round <= k.Round {
		c.known[k.EventID] = cachedTerms{k.Round, t}
	}
	return t, nil
}
