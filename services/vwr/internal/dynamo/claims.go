package dynamo

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

const (
	// claimsQueued bounds the claims that wait; what is above it is not counted, and the visitor never waits for it.
	claimsQueued = 20_000
	// claimsGroup is the most claims in a group.
	claimsGroup = 500
	// claimsGap is the least time between two groups: the share is measured over 20 s, so the counter item is spared.
	claimsGap = 200 * time.Millisecond
	// claimsTimeout bounds one write.
	claimsTimeout = 3 * time.Second
	// claimsFlush is how long a shutdown may take to write what waits.
	claimsFlush = 3 * time.Second
	// claimsRemembered is how many claimed positions a replica remembers, so that repeated checks cost no write; twice that at most.
	claimsRemembered = 50_000
)

var _ room.Claims = (*Claims)(nil)

// Claims counts the positions whose visitors came, once each, whichever replicas they come to: the positions of a group are added to a
// set, whose former content tells which of them are new, and the number of these to the event's counter. A crash between the two
// loses counts, never counts twice.
type Claims struct {
	store  *Store
	queue  chan room.Record
	mu     sync.Mutex
	recent generations
}

// NewClaims makes a counter of claims over the store; Run must run.
func NewClaims(s *Store) *Claims {
	return &Claims{store: s, queue: make(chan room.Record, claimsQueued), recent: newGenerations(claimsRemembered)}
}

// Claim notes a claim for the next group.
func (c *Claims) Claim(r room.Record) {
	c.mu.Lock()
	fresh := c.recent.add(r.RequestID)
	c.mu.Unlock()
	if !fresh {
		return
	}
	c.enqueue(r)
}

// enqueue never waits: what is too much is dropped, and a later check of the same visitor may claim again.
func (c *Claims) enqueue(r room.Record) {
	select {
	case c.queue <- r:
	default:
		c.forget(r.RequestID)
		claimsTotal.WithLabelValues("dropped").Inc()
	}
}

func (c *Claims) forget(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.remove(id)
}

// Run writes groups until ctx ends, then what still waits.
func (c *Claims) Run(ctx context.Context) error {
	for {
		select {
		case r := <-c.queue:
			c.write(context.WithoutCancel(ctx), c.gather(r))
		case <-ctx.Done():
			c.flush(context.WithoutCancel(ctx))
			return nil
		}
		select {
		case <-time.After(claimsGap):
		case <-ctx.Done():
		}
	}
}

func (c *Claims) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, claimsFlush)
	defer cancel()
	for left := len(c.queue); left > 0 && ctx.Err() == nil; left-- { // not those that fail and come back
		select {
		case r := <-c.queue:
			group := c.gather(r)
			left -= len(group) - 1
			c.write(ctx, group)
		default:
			return
		}
	}
}

// gather takes what waits, with first in front.
func (c *Claims) gather(first room.Record) []room.Record {
	group := []room.Record{first}
	for len(group) < claimsGroup {
		select {
		case r := <-c.queue:
			group = append(group, r)
		default:
			return group
		}
	}
	return group
}

// blockKey names one set of claimed positions.
type blockKey struct {
	groupKey

	block int64
}

// write adds the positions of a group to their sets, and the new ones to their events' counters.
func (c *Claims) write(ctx context.Context, group []room.Record) {
	blocks := make(map[blockKey][]room.Record)
	for _, r := range group {
		k := blockKey{groupKey{r.EventID, r.Round}, r.Position / claimsBlock}
		blocks[k] = append(blocks[k], r)
	}
	fresh := make(map[groupKey]int64)
	for k, records := range blocks {
		n, err := c.store.addClaims(ctx, k, records)
		if err != nil {
			// Again with the next group: a slow store must not look like visitors who have left, which would speed the counter up.
			for _, r := range records {
				c.enqueue(r)
			}
			claimsTotal.WithLabelValues("failed").Add(float64(len(records)))
			continue
		}
		fresh[k.groupKey] += n
	}
	for k, n := range fresh {
		if n == 0 {
			continue
		}
		result := "counted"
		if err := c.store.addClaimed(ctx, k, n); err != nil {
			result = "lost"
		}
		claimsTotal.WithLabelValues(result).Add(float64(n))
	}
}

// addClaims adds positions to a set and returns how many of them were not in it.
func (s *Store) addClaims(ctx context.Context, k blockKey, records []room.Record) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
	defer cancel()
	positions := make([]int64, len(records))
	for i, r := range records {
		positions[i] = r.Position
	}
	slices.Sort(positions)
	positions = slices.Compact(positions) // a set is written without repetitions
	out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.positions,
		Key:                       claimsKey(k.groupKey, k.block),
		UpdateExpression:          aws.String("ADD #claims :positions SET #ttl = :ttl"),
		ExpressionAttributeNames:  map[string]string{"#claims": attrClaimSet, "#ttl": attrTTL},
		ExpressionAttributeValues: item{":positions": numbers(positions), ":ttl": num(s.now().Add(positionLife).Unix())},
		ReturnValues:              types.ReturnValueUpdatedOld,
	}, dynamo.NoRetry)
	if err != nil {
		return 0, unavailable(err)
	}
	fresh := int64(len(positions))
	if old, ok := out.Attributes[attrClaimSet].(*types.AttributeValueMemberNS); ok {
		for _, p := range positions {
			if slices.Contains(old.Value, strconv.FormatInt(p, 10)) {
				fresh--
			}
		}
	}
	return fresh, nil
}

// addClaimed counts n claims of a round; the SDK does not repeat it.
func (s *Store) addClaimed(ctx context.Context, k groupKey, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
	defer cancel()
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:           &s.counters,
		Key:                 counterKey(k.eventID),
		UpdateExpression:    aws.String("ADD " + attrClaimed + " :n SET " + attrUpdated + " = :now"),
		ConditionExpression: aws.String(attrRound + " = :round"),
		ExpressionAttributeValues: item{
			":n": num(n), ":now": num(s.now().UnixMilli()), ":round": num(int64(k.round)),
		},
	}, dynamo.NoRetry)
	counterWrites.WithLabelValues("claimed").Inc()
	return conditional(err)
}

// generations is a set that forgets: when the young generation is full, it becomes the old one, and the old one is dropped.
type generations struct {
	max        int
	young, old map[uuid.UUID]struct{}
}

func newGenerations(limit int) generations {
	return generations{max: limit, young: make(map[uuid.UUID]struct{})}
}

// add reports whether id was not in the set.
func (g *generations) add(id uuid.UUID) bool {
	if _, ok := g.young[id]; ok {
		return false
	}
	if _, ok := g.old[id]; ok {
		return false
	}
	if len(g.young) >= g.max {
		g.young, g.old = make(map[uuid.UUID]struct{}), g.young
	}
	g.young[id] = struct{}{}
	return true
}

func (g *generations) remove(id uuid.UUID) {
	delete(g.young, id)
	delete(g.old, id)
}
