// Package drand fetches rounds of randomness beacons over HTTP.
package drand

import (
	"context"
	"net/http"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/services/worker/internal/draw"
)

// timeout bounds one request, whatever the caller's deadline is.
const timeout = 10 * time.Second

var _ draw.Beacon = (*Source)(nil)

// Source asks relays. They need not be trusted, since every round is verified.
type Source struct {
	urls   []string
	client *http.Client
}

// New makes a source of the base URLs of relays, asked in this order.
func New(urls []string) (*Source, error) {
	if _, err := beacon.NewClient(beacon.Quicknet(), urls, nil); err != nil { // only the URLs can be wrong
		return nil, config.Invalid("BEACON_URLS", urls, err.Error())
	}
	return &Source{urls: urls, client: &http.Client{Timeout: timeout}}, nil
}

func (s *Source) Round(ctx context.Context, chain beacon.Chain, round uint64) (beacon.Round, error) {
	c, err := beacon.NewClient(chain, s.urls, s.client)
	if err != nil {
		return beacon.Round{}, err
	}
	return c.Get(ctx, round)
}
