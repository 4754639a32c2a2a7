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
	// maxCached is the most ids in memory. There is a limit, since anybody can ask for any id.
	maxCached = 10_000
	// readTimeout is the time limit of one read of the store. Several requests may wait for one read.
	readTimeout = 3 * time.Second
)

// cachedStore is a Store that keeps campaigns in memory and reads each at most once per keepFor.
type cachedStore struct {
	Store

	keepFor time.Duration
	reads   singleflight.Group

	mu     sync.Mutex
	cached map[string]cachedCampaign
}

// cachedCampaign is what a read of the store returned: a campaign, or ErrNotFound.
type cachedCampaign struct {
	campaign Campaign
	now      time.Time // the database's time at the read
	read     time.Time // this process's time before the read
	err      error
}

// Cached wraps the store s. Its Get answers from memory if the campaign was read less than keepFor
// ago. The other methods call those of s.
func Cached(s Store, keepFor time.Duration) Store {
	return &cachedStore{Store: s, keepFor: keepFor, cached: make(map[string]cachedCampaign)}
}

func (c *cachedStore) Get(ctx context.Context, eventID string) (Campaign, time.Time, error) {
	p, fresh := c.find(eventID)
	if !fresh {
		result := c.reads.DoChan(eventID, func() (any, error) { return c.readAndKeep(ctx, eventID) })
		select {
		case <-ctx.Done():
			return Campaign{}, time.Time{}, ctx.Err()
		case r := <-result:
			if r.Err != nil {
				return Campaign{}, time.Time{}, r.Err
			}
			p, _ = r.Val.(cachedCampaign)
		}
	}
	return p.campaign, p.now.Add(time.Since(p.read)), p.err
}

// Enter also lowers the stock in memory, so that a member who has drawn sees how many are left.
func (c *cachedStore) Enter(ctx context.Context, eventID, memberID string, method EntryMethod) (RewardedEntry, error) {
	e, err := c.Store.Enter(ctx, eventID, memberID, method)
	if err == nil && e.Prize != nil && e.Prize.Stock != nil && !e.Repeated {
		c.lowerStock(eventID, e.Prize)
	}
	return e, err
}

func (c *cachedStore) lowerStock(eventID string, drawn *Prize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.cached[eventID]
	i := slices.IndexFunc(p.campaign.Prizes, func(prize Prize) bool {
		return prize.ID == drawn.ID && prize.Stock != nil && *prize.Stock > *drawn.Stock
	})
	if i >= 0 {
		p.campaign.Prizes = slices.Clone(p.campaign.Prizes) // other requests may be reading the slice
		p.campaign.Prizes[i].Stock = drawn.Stock
		c.cached[eventID] = p
	}
}

func (c *cachedStore) find(eventID string) (p cachedCampaign, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, found := c.cached[eventID]
	return p, found && time.Since(p.read) < c.keepFor
}

// readAndKeep reads a campaign and keeps it. If the request that began the read is cancelled, the
// read goes on, since other requests may wait for it.
func (c *cachedStore) readAndKeep(ctx context.Context, eventID string) (cachedCampaign, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	p := cachedCampaign{read: time.Now()}
	if p.campaign, p.now, p.err = c.Store.Get(ctx, eventID); p.err != nil && !errors.Is(p.err, ErrNotFound) {
		return cachedCampaign{}, p.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cached) >= maxCached {
		clear(c.cached)
	}
	c.cached[eventID] = p
	return p, nil
}
