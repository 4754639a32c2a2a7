package beacon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Errors of Sources.Check.
var (
	// ErrChain means that the chain is invalid, or that no source publishes it.
	ErrChain = errors.New("beacon: not a chain that the sources publish")
	// ErrUnchecked means that no source gave a valid answer, so the state of the chain is unknown.
	ErrUnchecked = errors.New("beacon: no source has shown that the chain is alive")
)

// Sources fetches rounds of any beacon chain from the same servers. It is safe for concurrent use.
type Sources struct {
	urls   []string
	client *http.Client

	mu      sync.Mutex
	clients map[Chain]*Client
}

// maxChains is the largest number of chains for which a Client is kept. Operators set the chains,
// so there are few.
const maxChains = 64

// NewSources returns Sources that ask the servers at these base URLs, in this order. It fails if
// one is not a URL. Without URLs all calls fail.
func NewSources(urls []string, client *http.Client) (*Sources, error) {
	if len(urls) > 0 {
		if _, err := NewClient(Quicknet(), urls, client); err != nil {
			return nil, err
		}
	}
	return &Sources{urls: urls, client: client, clients: make(map[Chain]*Client)}, nil
}

// Get returns a verified round of a chain, or fails with ErrNotPublished or all servers' errors.
func (s *Sources) Get(ctx context.Context, chain Chain, round uint64) (Round, error) {
	c, err := s.clientFor(chain)
	if err != nil {
		return Round{}, err
	}
	return c.Get(ctx, round)
}

// checkTimeout is the time limit of a check, shorter than the deadline of an operator's call.
const checkTimeout = 2500 * time.Millisecond

// Check makes sure that a server publishes the chain now: its /info describes the chain, and its
// latest round verifies. It fails with ErrChain or ErrUnchecked.
func (s *Sources) Check(ctx context.Context, chain Chain, now time.Time) error {
	if err := chain.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrChain, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c, err := s.clientFor(chain)
	if err == nil {
		err = c.Check(ctx, now)
	}
	switch {
	case errors.Is(err, ErrNoSuchChain):
		return fmt.Errorf("%w: %w", ErrChain, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnchecked, err)
	}
	return nil
}

func (s *Sources) clientFor(chain Chain) (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[chain]; c != nil {
		return c, nil
	}
	c, err := NewClient(chain, s.urls, s.client)
	if err != nil {
		return nil, err
	}
	if len(s.clients) >= maxChains {
		clear(s.clients)
	}
	s.clients[chain] = c
	return c, nil
}
