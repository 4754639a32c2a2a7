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
	// ErrChain means that the chain cannot be used: it is invalid, or no source publishes it.
	ErrChain = errors.New("beacon: not a chain that the sources publish")
	// ErrUnchecked means that no source has answered as it should.
	ErrUnchecked = errors.New("beacon: no source has shown that the chain is alive")
)

// Sources fetches rounds of any chain from the same base URLs. It is safe for concurrent use.
type Sources struct {
	urls   []string
	client *http.Client

	mu      sync.Mutex
	clients map[Chain]*Client
}

// maxChains bounds the clients that are kept; chains are operators' settings.
const maxChains = 64

// NewSources returns Sources that ask the base URLs in this order. It fails for what is no URL; without
// URLs all calls fail.
func NewSources(urls []string, client *http.Client) (*Sources, error) {
	if len(urls) > 0 {
		if _, err := NewClient(Quicknet(), urls, client); err != nil {
			return nil, err
		}
	}
	return &Sources{urls: urls, client: client, clients: make(map[Chain]*Client)}, nil
}

// Get returns a verified round of a chain. It fails with ErrNotPublished, or as Client.Get.
func (s *Sources) Get(ctx context.Context, chain Chain, round uint64) (Round, error) {
	c, err := s.clientFor(chain)
	if err != nil {
		return Round{}, err
	}
	return c.Get(ctx, round)
}

// checkTimeout bounds the check of a chain. It is less than an operator's call may take.
const checkTimeout = 2500 * time.Millisecond

// Check makes sure that a source publishes the chain now, as Client.Check says. It fails with ErrChain
// or ErrUnchecked.
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
