// Package revoked keeps the list of revoked sessions: single ones (by signing out or by an
// operator) and all sessions of a user issued before an instant. It is a sorted set in Redis, which
// every gateway reads each second. Gateways keep entries for as long as a session can last, so that
// Redis may be unavailable or lose them. A session older than that is refused, since its revocation
// may have been dropped.
package revoked

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/claims"
	"urr.guru/services/gateway/internal/identity"

	pkgredis "urr.guru/pkg/redis"
)

// Key is the key of the sorted set in Redis. Its members are `s:<session>`, with the time of
// revocation as score, and `u:<user>`, with the time until which revoked sessions were issued, both
// in epoch milliseconds.
const Key = "revoked"

const (
	bySession = "s:"
	byUser    = "u:"
)

// maxClockSkew is the most by which the clocks of two gateways may differ.
const maxClockSkew = time.Minute

// refreshTimeout is the longest time that a sign-in waits for Redis.
const refreshTimeout = time.Second

var _ identity.Revocations = (*List)(nil)

// List has the revoked sessions in memory and in Redis. It is safe for concurrent use.
type List struct {
	// ReadOnly says that this process writes nothing to Redis: neither entries that Redis lacks, nor
	// the removal of old ones. It is set before the first Read.
	ReadOnly bool

	rdb  redis.UniversalClient // nil: the list is local
	key  string
	life time.Duration // maximum lifetime of a session
	now  func() time.Time

	wasRead atomic.Bool
	mu      sync.RWMutex
	entries map[string]int64 // member → epoch ms

	// Only Read uses these: the times of its last call and of the last read of the whole list, and the
	// score up to which it has read the list since then.
	read, fullRead time.Time
	readTo         int64
}

// New makes a list over the set at key. It keeps entries for life, the longest lifetime of a
// session. It knows nothing until the first Read. Without a client (nil) the list is in this
// process only, and known at once.
func New(rdb redis.UniversalClient, key string, life time.Duration, now func() time.Time) *List {
	l := &List{rdb: rdb, key: key, life: life, now: now, entries: make(map[string]int64)}
	l.wasRead.Store(rdb == nil)
	return l
}

func (l *List) HasBeenRead() bool { return l.wasRead.Load() }

// Ready fails until the list was read once.
func (l *List) Ready(context.Context) error {
	if !l.HasBeenRead() {
		return errors.New("the revoked sessions have not been read yet")
	}
	return nil
}

// IsRevoked reports whether a session was revoked, or may have been: after SESSION_LIFE was
// lowered, the list may have dropped the revocations of sessions that are older than the new value.
func (l *List) IsRevoked(c *claims.Session) bool {
	if c.Issued().Add(l.life).Before(l.now()) {
		return true
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.entries) == 0 {
		return false
	}
	if _, listed := l.entries[bySession+c.ID]; listed {
		return true
	}
	at, listed := l.entries[byUser+c.UserID]
	return listed && c.Issued().UnixMilli() <= at
}

// RevokeSessions revokes single sessions. It fails with errs.ErrUnavailable if Redis does not store
// this.
func (l *List) RevokeSessions(ctx context.Context, ids ...string) error {
	at := l.now().UnixMilli()
	entries := make(map[string]int64, len(ids))
	for _, id := range ids {
		entries[bySession+id] = at
	}
	return l.revoke(ctx, entries)
}

// RevokeUser revokes all sessions of a user issued until now, even by a gateway with a fast clock.
func (l *List) RevokeUser(ctx context.Context, userID string) error {
	return l.revoke(ctx, map[string]int64{byUser + userID: l.now().Add(maxClockSkew).UnixMilli()})
}

// IssueTime returns the time of issue for a new session of a user: now, or just after the last
// revocation of the user's sessions if that is later. It reads Redis, since another gateway may
// have revoked them after the last Read. While Redis is unavailable it uses the list in memory.
func (l *List) IssueTime(ctx context.Context, userID string) time.Time {
	member := byUser + userID
	l.refreshMember(ctx, member)
	l.mu.RLock()
	defer l.mu.RUnlock()
	now := l.now()
	if until := time.UnixMilli(l.entries[member]); !now.After(until) {
		return until.Add(time.Millisecond)
	}
	return now
}

// refreshMember reads one member of the list from Redis into memory.
func (l *List) refreshMember(ctx context.Context, member string) {
	if l.rdb == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	switch at, err := l.rdb.ZScore(ctx, l.key, member).Result(); {
	case err == nil:
		l.mergeEntries(map[string]int64{member: int64(at)})
	case !errors.Is(err, redis.Nil):
		failedReads.Inc()
	}
}

// revoke adds entries to the list, first in Redis, so that all gateways get what is revoked here.
func (l *List) revoke(ctx context.Context, entries map[string]int64) error {
	if l.rdb != nil {
		if err := l.writeEntries(ctx, entries); err != nil {
			return err
		}
	}
	l.mergeEntries(entries)
	return nil
}

// mergeEntries adds entries to the list in memory. It keeps the later time of a member.
func (l *List) mergeEntries(entries map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m, at := range entries {
		l.entries[m] = max(l.entries[m], at)
	}
	revocations.Set(float64(len(l.entries)))
}

// writeMax is the most members of one command.
const writeMax = 1000

func (l *List) writeEntries(ctx context.Context, entries map[string]int64) error {
	var group []redis.Z
	send := func() error {
		if len(group) == 0 {
			return nil
		}
		err := l.rdb.ZAddArgs(ctx, l.key, redis.ZAddArgs{GT: true, Members: group}).Err()
		group = group[:0]
		return pkgredis.Err(err)
	}
	for m, at := range entries {
		group = append(group, redis.Z{Member: m, Score: float64(at)})
		if len(group) == writeMax {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

func wellFormed(member string) bool {
	return strings.HasPrefix(member, bySession) || strings.HasPrefix(member, byUser)
}
