package lobby

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/room"
)

// errNoShuffle means that no shuffle of a lobby is stored, or that it has expired.
var errNoShuffle = errors.New("lobby: no shuffle is stored")

// terms are the parts of a shuffle that never change: the commitment, its hash, and the nonce.
type terms struct {
	commitment fairdraw.Commitment
	hash       fairdraw.Hash
	nonce      fairdraw.Nonce
}

func parseTerms(s *Shuffle) (*terms, error) {
	c, hash, err := fairdraw.ParseCommitment([]byte(s.Commitment))
	if err != nil {
		return nil, fmt.Errorf("commitment of %s: %w", s.Key, err)
	}
	return &terms{commitment: c, hash: hash, nonce: s.Nonce}, nil
}

// maxCloseGrace is 5 s for a driver whose clock is ahead, and most of the 10 s that a join may wait
// for its group. A join that arrived before the closing counts, even if it is stored later.
const maxCloseGrace = 12 * time.Second

// closeGrace returns how long after the lobby's closing entries may still be stored that arrived
// before the closing.
func (t *terms) closeGrace() time.Duration { return min(maxCloseGrace, t.publicationWindow()/5) }

// maxSignMargin is time for the write of the signature, for a clock that is 5 s slow, and for the
// caches in front of the published document.
const maxSignMargin = 15 * time.Second

// signMargin returns how long before the latest publication of the root the write of the signature
// must start.
func (t *terms) signMargin() time.Duration { return min(maxSignMargin, t.publicationWindow()/4) }

// signTimeout limits the write of the signature to a part of signMargin. With a lead below MinLead,
// signMargin may be 0; then the usual time limit of a write applies.
func (t *terms) signTimeout() time.Duration {
	if t.commitment.Beacon == nil || t.signMargin() == 0 {
		return writeTimeout
	}
	return t.signMargin() * 4 / 5
}

// beaconRoundAt returns the beacon round that decides the order if the root is signed at now.
// timely is false if the root may become public too late for that round.
func (t *terms) beaconRoundAt(now time.Time) (round uint64, timely bool) {
	round, _ = t.commitment.RoundFor(now)
	later, _ := t.commitment.RoundFor(now.Add(t.signMargin()))
	return round, later == round
}

// publicationWindow returns the time from the closing to the latest publication of the root: a
// minute with DefaultLead. Shorter leads, in development, shorten it and the times derived from it.
func (t *terms) publicationWindow() time.Duration {
	c := &t.commitment
	if c.Beacon == nil {
		return c.Announced().Sub(c.Cutoff())
	}
	return max(0, time.Duration(c.Beacon.DelaySeconds)*time.Second-fairdraw.RootLead)
}

// termsCache caches the terms of each event's latest known round. Terms never change, so nothing
// expires. The terms of a later round replace those of an earlier one. The driver removes the terms
// of ended lobbies, so that the cache does not grow over months.
type termsCache struct {
	store ShuffleReader

	mu     sync.Mutex
	latest map[string]cachedTerms // by event
}

// cachedTerms are the terms of one round of an event.
type cachedTerms struct {
	round room.Round
	*terms
}

func newTermsCache(s ShuffleReader) *termsCache {
	return &termsCache{store: s, latest: make(map[string]cachedTerms)}
}

func (c *termsCache) get(ctx context.Context, k Key) (*terms, error) {
	c.mu.Lock()
	got, ok := c.latest[k.EventID]
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
	t, err := parseTerms(&s)
	if err != nil {
		return nil, room.ErrUnavailable.Wrap(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest[k.EventID].round <= k.Round {
		c.latest[k.EventID] = cachedTerms{k.Round, t}
	}
	return t, nil
}

func (c *termsCache) retain(keep func(Key) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.latest, func(event string, t cachedTerms) bool { return !keep(Key{event, t.round}) })
}
