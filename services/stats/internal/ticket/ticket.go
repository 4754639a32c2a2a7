// Package ticket calls the ticket service for the time zones of events.
package ticket

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/stats/internal/figures"
)

var _ figures.Zones = (*Zones)(nil)

const (
	// maxAge is how long a time zone is cached. Operators seldom change one.
	maxAge = time.Minute
	// maxCalls is the maximum number of concurrent calls to the ticket service for one list.
	maxCalls = 16
)

// Zones reads the time zones of events from the ticket service, and caches them for maxAge.
// Campaigns, promotions and events that this service does not know have figures.DefaultZone.
type Zones struct {
	events ticketv1.EventServiceClient
	now    func() time.Time

	mu    sync.Mutex
	cache map[string]cachedZone
}

type cachedZone struct {
	name string
	at   time.Time
}

// NewZones makes Zones that call the ticket service on a connection.
func NewZones(conn grpc.ClientConnInterface, now func() time.Time) *Zones {
	return &Zones{events: ticketv1.NewEventServiceClient(conn), now: now, cache: make(map[string]cachedZone)}
}

// ZonesOf returns the time zones of events by their ids. For the id "" it is the default.
func (z *Zones) ZonesOf(ctx context.Context, eventIDs []string) (map[string]string, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxCalls)
	for _, id := range eventIDs {
		if _, cached := z.recall(id); cached {
			continue
		}
		g.Go(func() error {
			info, err := z.events.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: id})
			if err != nil && !errors.Is(err, errs.ErrEventNotFound) {
				return err
			}
			z.remember(id, info.GetTimeZone())
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	zones := make(map[string]string, len(eventIDs))
	for _, id := range eventIDs {
		zones[id], _ = z.recall(id)
	}
	return zones, nil
}

// recall returns the cached time zone of an event, and whether it is younger than maxAge.
func (z *Zones) recall(id string) (name string, fresh bool) {
	if id == "" {
		return figures.DefaultZone, true
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	k, fresh := z.cache[id]
	return k.name, fresh && z.now().Sub(k.at) < maxAge
}

func (z *Zones) remember(id, name string) {
	if name == "" {
		name = figures.DefaultZone
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.cache[id] = cachedZone{name, z.now()}
}
