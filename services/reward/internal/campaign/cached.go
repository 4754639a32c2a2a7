package campaign

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// maxKept bounds the campaigns in memory, since anybody can ask for any id.
	maxKept = 10_000
	// readTimeout bounds a read, which several requests wait for.
	readTimeout = 3 * time.Second
)

// cached is a Store that reads a campaign at most once per keepFor.
type cached struct {
	Store

	keepFor time.Duration
	reads   singleflight.Group

	mu   sync.Mutex
	kept map[string]page
}

// page is a campaign, or ErrNotFound, as it was read.
type page struct {
	campaign Campaign
	now      time.Time // of the database
	read     time.Time // by this process
	err      error
}

// Cached makes a Store whose Get answers from memory what was read less than keepFor ago. The other
// methods are those of the store.
func Cached(s Store, keepFor time.Duration) Store {
	return &cached{Store: s, keepFor: keepFor, kept: make(map[string]page)}
}

func (c *cached) Get(ctx context.Context, eventID string) (Campaign, time.Time, error) {
	p, fresh := c.find(eventID)
	if !fresh {
		result := c.reads.DoChan(eventID, func() (any, error) { return c.get(ctx, eventID) })
		select {
		case <-ctx.Done():
			return Campaign{}, time.Time{}, ctx.Err()
		case r := <-result:
			if r.Err != nil {
				return Campaign{}, time.Time{}, r.Err
			}
			p, _ = r.Val.(page)
		}
	}
	return p.campaign, p.now.Add(time.Since(p.read)), p.err
}

// Enter lowers the stock in memory too, so that the page of a member who has drawn shows what is left.
func (c *cached) Enter(ctx context.Context, eventID, memberID string, how EntryMethod) (Earned, error) {
	e, err := c.Store.Enter(ctx, eventID, memberID, how)
	if err == nil && e.Prize != nil && e.Prize.Stock != nil && !e.Repeated {
		c.lowerStock(eventID, e.Prize)
	}
	return e, err
}

func (c *cached) lowerStock(eventID string, drawn *Prize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.kept[eventID]
	i := slices.IndexFunc(p.campaign.Prizes, func(kept Prize) bool {
		return kept.ID == drawn.ID && kept.Stock != nil && *kept.Stock > *drawn.Stock
	})
	if i >= 0 {
		p.campaign.Prizes = slices.Clone(p.campaign.Prizes) // others may be reading them
		p.campaign.Prizes[i].Stock = drawn.Stock
		c.kept[eventID] = p
	}
}

func (c *cached) find(eventID string) (p page, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, found := c.kept[eventID]
	return p, found && time.Since(p.read) < c.keepFor
}

// get reads a campaign and keeps it. The end of the first caller does not end the read of the others.
func (c *cached) get(ctx context.Context, eventID string) (page, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	p := page{read: time.Now()}
	if p.campaign, p.now, p.err = c.Store.Get(ctx, eventID); p.err != nil && !errors.Is(p.err, ErrNotFound) {
		return page{}, p.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) >= maxKept {
		clear(c.kept)
	}
	c.kept[eventID] = p
	return p, nil
}
