package dynamo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/vwr/internal/room"
)

const (
	// claimsQueued bounds the claims of a round that wait; what is above it is not counted, and the
	// visitor never waits for it.
	claimsQueued = 20_000
	// claimsGroup is the most claims in a group.
	claimsGroup = 500
	// claimsGap is the least time between two groups of a round: the share is measured over 20 s, so
	// the counter item is spared.
	claimsGap = 200 * time.Millisecond
	// claimsAtOnce bounds the sets of a round that a replica writes at once.
	claimsAtOnce = 8
	// claimsFlush is how long a shutdown may take to write what waits.
	claimsFlush = 3 * time.Second
	// claimsRemembered is how many claimed positions a replica remembers, so that repeated checks
	// cost no write; twice that at most.
	claimsRemembered = 50_000
)

var (
	_ room.Claims = (*Claims)(nil)
	_ room.Tally  = (*Claims)(nil)
)

// Claims counts the positions whose visitors came, once each, whichever replicas they come to: the
// positions of a group are added to a set, whose former content tells which of them are new, and
// the number of these to the round's count. A crash between the two loses counts, never counts
// twice. Each round has a queue and a writer of its own while claims of it wait, so that a burst or
// a slow partition of one event delays the count of no other.
//
// Replicas of the previous release know only the sets in the event's own partition and the count on
// its item, so both are written too for as long as they may run.
type Claims struct {
	store    *Store
	flushFor time.Duration
	begun    chan *claimQueue // those that need a writer; has room for each of queues
	mu       sync.Mutex
	recent   generations
	queues   map[groupKey]*claimQueue
}

// claimQueue holds the claims of a round that wait. It exists while there are any.
type claimQueue struct {
	groupKey

	waiting []claim
	behind  bool // claims were dropped, or could not be written by the last group
}

// claim is a position whose visitor came.
type claim struct {
	id       uuid.UUID
	position int64
}

// NewClaims makes a counter of claims over the store; Run must run.
func NewClaims(s *Store) *Claims {
	return &Claims{
		store: s, flushFor: claimsFlush, begun: make(chan *claimQueue, eventsMost),
		recent: newGenerations(claimsRemembered), queues: make(map[groupKey]*claimQueue),
	}
}

// Claim notes a claim for the next group of its round; it never waits.
func (c *Claims) Claim(r room.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent.add(r.RequestID) {
		c.enqueueLocked(groupKey{r.EventID, r.Round}, claim{r.RequestID, r.Position})
	}
}

// enqueueLocked drops what is too much; a later check of the same visitor may claim again.
func (c *Claims) enqueueLocked(k groupKey, cl claim) {
	q := c.queueLocked(k)
	if q != nil && len(q.waiting) < claimsQueued {
		q.waiting = append(q.waiting, cl)
		return
	}
	if q != nil {
		q.behind = true
	}
	c.recent.remove(cl.id)
	claimsTotal.WithLabelValues("dropped").Inc()
}

// queueLocked is the queue of a round, made when there is none; nil when there are too many.
func (c *Claims) queueLocked(k groupKey) *claimQueue {
	q := c.queues[k]
	if q == nil && len(c.queues) < eventsMost {
		q = &claimQueue{groupKey: k}
		c.queues[k] = q
		c.begun <- q
	}
	return q
}

// Run writes groups until ctx ends, then what still waits.
func (c *Claims) Run(ctx context.Context) error {
	var writers sync.WaitGroup
	for {
		select {
		case q := <-c.begun:
			writers.Go(func() { c.drain(ctx, q) })
		case <-ctx.Done():
			writers.Wait()
			c.flush(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// drain writes the groups of a queue until nothing waits or ctx ends.
func (c *Claims) drain(ctx context.Context, q *claimQueue) {
	for group := c.take(q); len(group) > 0; group = c.take(q) {
		c.write(context.WithoutCancel(ctx), q, group)
		select {
		case <-time.After(claimsGap):
		case <-ctx.Done():
			return
		}
	}
}

// take takes what waits, a group at most; a queue in which nothing waits ends.
func (c *Claims) take(q *claimQueue) []claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(q.waiting), claimsGroup)
	if n == 0 {
		delete(c.queues, q.groupKey)
		return nil
	}
	group := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return group
}

func (c *Claims) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.flushFor)
	defer cancel()
	c.mu.Lock()
	queues := slices.Collect(maps.Values(c.queues))
	c.mu.Unlock()
	var writers sync.WaitGroup
	for _, q := range queues {
		writers.Go(func() {
			for left := c.left(q); left > 0 && ctx.Err() == nil; { // not those that fail and come back
				group := c.take(q)
				left -= len(group)
				c.write(ctx, q, group)
			}
		})
	}
	writers.Wait()
}

func (c *Claims) left(q *claimQueue) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(q.waiting)
}

// write adds the positions of a group to their sets, and the new ones to the round's counts.
func (c *Claims) write(ctx context.Context, q *claimQueue, group []claim) {
	blocks := make(map[int64][]claim)
	for _, cl := range group {
		block := cl.position / claimsBlock
		blocks[block] = append(blocks[block], cl)
	}
	var (
		mu    sync.Mutex
		total written
		work  sync.WaitGroup
	)
	free := make(chan struct{}, claimsAtOnce)
	for block, claims := range blocks {
		free <- struct{}{}
		work.Go(func() {
			defer func() { <-free }()
			w := c.writeBlock(ctx, q, block, claims)
			mu.Lock()
			defer mu.Unlock()
			total.add(w)
		})
	}
	work.Wait()
	c.count(ctx, q.groupKey, total)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.behind = total.failed
}

// written is what became of a group, or a part of it: how many claims were new in the sets, in
// those of the previous release, and whether any could not be written.
type written struct {
	fresh, former int64
	failed        bool
}

func (w *written) add(o written) {
	w.fresh += o.fresh
	w.former += o.former
	w.failed = w.failed || o.failed
}

// writeBlock adds claims to their set. Those that fail wait for the next group: a slow store must
// not look like visitors who have left, which would speed the counter up.
func (c *Claims) writeBlock(ctx context.Context, q *claimQueue, block int64, claims []claim) written {
	fresh, err := c.store.addClaims(ctx, claimsKey(q.groupKey, block), claims)
	if err != nil {
		c.again(q, claims)
		return written{failed: true}
	}
	former, err := c.store.addClaims(ctx, formerClaimsKey(q.groupKey, block), claims)
	if err != nil && c.left(q) < claimsQueued/2 { // never crowds out what the other sets have not got
		c.again(q, claims)
	}
	return written{fresh: fresh, former: former}
}

func (c *Claims) again(q *claimQueue, claims []claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range claims {
		c.enqueueLocked(q.groupKey, cl)
	}
	claimsTotal.WithLabelValues("failed").Add(float64(len(claims)))
}

// count adds what is new to the counts of a round.
func (c *Claims) count(ctx context.Context, k groupKey, w written) {
	if w.fresh > 0 {
		result := "counted"
		if _, err := c.store.addCount(ctx, k, w.fresh); err != nil {
			result = "lost"
		}
		claimsTotal.WithLabelValues(result).Add(float64(w.fresh))
	}
	if w.former > 0 {
		if err := c.store.addClaimed(ctx, k, w.former); err != nil && !errors.Is(err, room.ErrStale) {
			claimsTotal.WithLabelValues("former_lost").Add(float64(w.former))
		}
	}
}

// Claimed is the number of claims of a round. It is read by a write, in the partition that claims
// are written to, so that it fails when they cannot be.
func (c *Claims) Claimed(ctx context.Context, eventID string, round room.Round) (int64, error) {
	k := groupKey{eventID, round}
	if c.late(k) {
		return 0, room.ErrUnavailable
	}
	return c.store.addCount(ctx, k, 0)
}

// late reports whether the store lacks more claims of this replica than the next group will bring.
func (c *Claims) late(k groupKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[k]; q != nil {
		return q.behind || len(q.waiting) > claimsGroup
	}
	return len(c.queues) >= eventsMost
}
