package dynamo

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/vwr/internal/room"
)

const (
	// maxQueuedClaims is the maximum number of queued claims of a round. Further claims are dropped,
	// since visitors never wait for claims.
	maxQueuedClaims   = 20_000
	maxClaimsPerGroup = 500 // the most claims in a group
	// claimGroupInterval is the shortest time between two groups of claims of a round, to limit writes
	// of its count. The claim share is measured over much longer, so the delay does not matter.
	claimGroupInterval     = 200 * time.Millisecond
	maxParallelClaimWrites = 8               // the most claim sets of a round written at once
	claimsFlushTimeout     = 3 * time.Second // the time limit of writing queued claims at shutdown
	// maxRememberedClaims is the size of each of the two generations of claimed positions that a
	// replica remembers, so that repeated checks cost no write.
	maxRememberedClaims = 50_000
)

var (
	_ room.ClaimRecorder = (*Claims)(nil)
	_ room.ClaimCounter  = (*Claims)(nil)
)

// Claims counts claims: positions whose visitors have fetched a token, each once over all replicas.
// It adds a group of positions to a stored set; the set's previous content tells which of them are
// new. Then it adds the number of new ones to the round's count. After a crash between these two
// writes, the count lacks the new positions of that group; no position is ever counted twice. Each
// round with queued claims has its own queue and writer, so that a burst or a slow partition of one
// event delays no other event.
type Claims struct {
	store        *Store
	flushTimeout time.Duration
	newQueues    chan *claimQueue // queues without a writer; its capacity is maxEvents
	mu           sync.Mutex
	recent       recentIDs
	queues       map[roundKey]*claimQueue
}

// claimQueue has the queued claims of a round. An empty queue is removed.
type claimQueue struct {
	roundKey

	waiting    []positionClaim
	incomplete bool // claims were dropped, or the last group was not fully written
}

// positionClaim is a position whose visitor fetched a token.
type positionClaim struct {
	id       uuid.UUID
	position int64
}

// NewClaims returns a Claims. It writes to the store while Run runs.
func NewClaims(s *Store) *Claims {
	return &Claims{
		store: s, flushTimeout: claimsFlushTimeout, newQueues: make(chan *claimQueue, maxEvents),
		recent: newRecentIDs(maxRememberedClaims), queues: make(map[roundKey]*claimQueue),
	}
}

func (c *Claims) RecordClaim(r room.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent.add(r.RequestID) {
		c.enqueueLocked(roundKey{r.EventID, r.Round}, positionClaim{r.RequestID, r.Position})
	}
}

// enqueueLocked queues a claim, or drops it if the queue is full. A later check by the same visitor
// may claim again.
func (c *Claims) enqueueLocked(k roundKey, cl positionClaim) {
	q := c.queueLocked(k)
	if q != nil && len(q.waiting) < maxQueuedClaims {
		q.waiting = append(q.waiting, cl)
		return
	}
	if q != nil {
		q.incomplete = true
	}
	c.recent.remove(cl.id)
	claimsTotal.WithLabelValues("dropped").Inc()
}

// queueLocked returns the queue of a round, or makes one; nil if there are too many queues.
func (c *Claims) queueLocked(k roundKey) *claimQueue {
	q := c.queues[k]
	if q == nil && len(c.queues) < maxEvents {
		q = &claimQueue{roundKey: k}
		c.queues[k] = q
		c.newQueues <- q
	}
	return q
}

// Run writes queued claims in groups until ctx ends. Then it writes once what is still queued.
func (c *Claims) Run(ctx context.Context) error {
	var writers sync.WaitGroup
	for {
		select {
		case q := <-c.newQueues:
			writers.Go(func() { c.drainQueue(ctx, q) })
		case <-ctx.Done():
			writers.Wait()
			c.flushQueues(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// drainQueue writes the claims of a queue, group by group, until it is empty or ctx ends.
func (c *Claims) drainQueue(ctx context.Context, q *claimQueue) {
	for group := c.takeClaims(q); len(group) > 0; group = c.takeClaims(q) {
		c.writeGroup(context.WithoutCancel(ctx), q, group)
		select {
		case <-time.After(claimGroupInterval):
		case <-ctx.Done():
			return
		}
	}
}

// takeClaims removes and returns at most maxClaimsPerGroup claims of a queue. If the queue is
// empty, it deletes the queue.
func (c *Claims) takeClaims(q *claimQueue) []positionClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(q.waiting), maxClaimsPerGroup)
	if n == 0 {
		delete(c.queues, q.roundKey)
		return nil
	}
	group := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return group
}

func (c *Claims) flushQueues(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.flushTimeout)
	defer cancel()
	c.mu.Lock()
	queues := slices.Collect(maps.Values(c.queues))
	c.mu.Unlock()
	var writers sync.WaitGroup
	for _, q := range queues {
		writers.Go(func() {
			// Claims that are queued again because this write has failed are not written again.
			for left := c.queueLen(q); left > 0 && ctx.Err() == nil; {
				group := c.takeClaims(q)
				left -= len(group)
				c.writeGroup(ctx, q, group)
			}
		})
	}
	writers.Wait()
}

func (c *Claims) queueLen(q *claimQueue) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(q.waiting)
}

// writeGroup adds the positions of claims to stored sets, and the number of new ones to the count.
func (c *Claims) writeGroup(ctx context.Context, q *claimQueue, group []positionClaim) {
	blocks := make(map[int64][]positionClaim)
	for _, cl := range group {
		block := cl.position / claimsBlock
		blocks[block] = append(blocks[block], cl)
	}
	var (
		added  atomic.Int64
		failed atomic.Bool
		work   sync.WaitGroup
	)
	slots := make(chan struct{}, maxParallelClaimWrites)
	for block, claims := range blocks {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			n, err := c.store.addClaims(ctx, claimSetKey(q.roundKey, block), claims)
			if err != nil {
				failed.Store(true)
				c.requeue(q, claims)
			}
			added.Add(n)
		})
	}
	work.Wait()
	c.countNewClaims(ctx, q.roundKey, added.Load())
	c.mu.Lock()
	defer c.mu.Unlock()
	q.incomplete = failed.Load()
}

// requeue puts claims that could not be written back into the queue. Without these claims their
// visitors would seem to have left, and the serving counter would move too fast.
func (c *Claims) requeue(q *claimQueue, claims []positionClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range claims {
		c.enqueueLocked(q.roundKey, cl)
	}
	claimsTotal.WithLabelValues("failed").Add(float64(len(claims)))
}

func (c *Claims) countNewClaims(ctx context.Context, k roundKey, added int64) {
	if added == 0 {
		return
	}
	result := "counted"
	if _, err := c.store.addClaimCount(ctx, k, added); err != nil {
		result = "lost"
	}
	claimsTotal.WithLabelValues(result).Add(float64(added))
}

// Claimed returns the stored number of claims of a round. It adds 0 to the number instead of
// reading it, so that it fails while claims cannot be written.
func (c *Claims) Claimed(ctx context.Context, eventID string, round room.Round) (int64, error) {
	k := roundKey{eventID, round}
	if c.countIncomplete(k) {
		return 0, room.ErrUnavailable
	}
	return c.store.addClaimCount(ctx, k, 0)
}

// countIncomplete reports whether the stored count of a round is too small: this replica has
// dropped claims of the round, or has more unwritten ones than fit into the next group.
func (c *Claims) countIncomplete(k roundKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[k]; q != nil {
		return q.incomplete || len(q.waiting) > maxClaimsPerGroup
	}
	return len(c.queues) >= maxEvents
}
