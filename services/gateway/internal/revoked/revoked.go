// Package revoked keeps the list of revoked sessions: single ones (by signing out or by an operator)
// and all sessions of a user issued before an instant. It is a sorted set in the Redis of the
// gateways. Every gateway reads it each second and keeps entries for as long as a session may live,
// so that Redis may be unavailable or lose it. An older session is refused, since its revocation may
// have been dropped.
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

// Key is the sorted set. Its members are `s:<session>`, scored by the time of revocation, and
// `u:<user>`, scored by the time until which revoked sessions were issued, both in epoch
// milliseconds.
const Key = "revoked"

const (
	bySession = "s:"
	byUser    = "u:"
)

// maxClockSkew is how far the clocks of gateways may differ.
const maxClockSkew = time.Minute

// refreshTimeout bounds how long a sign-in waits for Redis.
const refreshTimeout = time.Second

var _ identity.Revocations = (*List)(nil)

// List has the revoked sessions in memory and in Redis. It is safe for concurrent use.
type List struct {
	rdb  redis.UniversalClient // nil: the list is local
	key  string
	life time.Duration // maximum lifetime of a session
	now  func() time.Time

	wasRead atomic.Bool
	mu      sync.RWMutex
	entries map[string]int64 // member → epoch ms

	// Only Read uses these: when it last read, when the whole list was last read, and up to which
	// score it has read the list since then.
	read, fullRead time.Time
	readTo         int64
}

// New makes a list over the set at key that keeps entries for life, the longest lifetime of a
// session. It knows nothing until the first Read. Without a client (nil) the list is local to the
// process, and known at once.
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

// IsRevoked reports whether a session was revoked, or may have been: after the lifetime was
// shortened, the list may have dropped the revocations of sessions with a longer one.
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

// RevokeSessions revokes single sessions. It fails with errs.ErrUnavailable when Redis cannot be
// written.
func (l *List) RevokeSessions(ctx context.Context, ids ...string) error {
	at := l.now().UnixMilli()
	entries := make(map[string]int64, len(ids))
	for _, id := range ids {
		entries[bySession+id] = at
	}
	return l.revoke(ctx, entries)
}

// RevokeUser revokes all sessions of a user issued until now by any gateway, whose clock may be ahead.
func (l *List) RevokeUser(ctx context.Context, userID string) error {
	return l.revoke(ctx, map[string]int64{byUser + userID: l.now().Add(maxClockSkew).UnixMilli()})
}

// IssueTime returns the time of issue for a new session of a user: now, or just after the last
// revocation of the user's sessions if that is later. It asks Redis, since another gateway may have
// revoked them after the last Read; while Redis is unavailable the list in memory decides.
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

// revoke adds entries to the list, to Redis first, so that what counts here reaches all gateways.
func (l *List) revoke(ctx context.Context, entries map[string]int64) error {
	if l.rdb != nil {
		if err := l.writeEntries(ctx, entries); err != nil {
			return err
		}
	}
	l.mergeEntries(entries)
	return nil
}

// mergeEntries adds entries to the list in memory. Of two times of a member it keeps the later one.
func (l *List) mergeEntries(entries map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m, at := range entries {
		l.entries[m] = max(l.entries[m], at)
	}
	revocations.Set(float64(len(l.entries)))
}

// writeMax bounds the members of one command.
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
