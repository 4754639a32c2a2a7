package lobby

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"urr.guru/pkg/fairdraw/beacon"
)

// BeaconSources fetches rounds of any chain from the same URLs. It is safe for concurrent use.
type BeaconSources struct {
	urls   []string
	client *http.Client

	mu      sync.Mutex
	clients map[beacon.Chain]*beacon.Client
}

var _ Beacons = (*BeaconSources)(nil)

var errNoSources = errors.New("lobby: BEACON_URLS is empty, so the value of the beacon cannot be fetched")

// maxChains bounds the clients that are kept; chains are operators' settings.
const maxChains = 64

// NewBeaconSources returns Sources that try the base URLs in this order.
func NewBeaconSources(urls []string, client *http.Client) *BeaconSources {
	return &BeaconSources{urls: urls, client: client, clients: make(map[beacon.Chain]*beacon.Client)}
}

func (s *BeaconSources) Get(ctx context.Context, chain beacon.Chain, round uint64) (beacon.Round, error) {
	if len(s.urls) == 0 {
		return beacon.Round{}, errNoSources
	}
	c, err := s.clientFor(chain)
	if err != nil {
		return beacon.Round{}, err
	}
	return c.Get(ctx, round)
}

func (s *BeaconSources) clientFor(chain beacon.Chain) (*beacon.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[chain]; c != nil {
		return c, nil
	}
	c, err := beacon.NewClient(chain, s.urls, s.client)
	if err != nil {
		return nil, err
	}
	if len(s.clients) >= maxChains {
		clear(s.clients)
	}
	s.clients[chain] = c
	return c, nil
}
