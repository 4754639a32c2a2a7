package revoked

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/loop"
	pkgredis "urr.guru/pkg/redis"
)

const (
	// readInterval is how often the list is read, and so about how long a revocation takes to reach
	// all gateways.
	readInterval = time.Second
	// recentWindow is how far back each read goes. Members written with an older time, by a clock
	// far behind, are found by the next full read.
	recentWindow = 2 * time.Minute
	// fullReadInterval is how often the whole list is read, even if the count says that nothing is
	// missing.
	fullReadInterval = time.Minute
	// readMax bounds the members of one reply.
	readMax = 5000
	// timeout bounds one Read.
	timeout = 5 * time.Second
)

// Watch reads the list each second until ctx ends. During an outage of Redis, which is logged once, the
// last list is used.
func (l *List) Watch(ctx context.Context, log *slog.Logger) error {
	if l.rdb == nil {
		return nil
	}
	failing := false
	return loop.Every(ctx, readInterval, func(ctx context.Context) {
		switch err := l.Read(ctx); {
		case ctx.Err() != nil:
		case err != nil:
			failedReads.Inc()
			if !failing {
				log.WarnContext(ctx, "revoked sessions cannot be read, the last list counts", "error", err)
			}
			failing = true
		case failing:
			failing = false
			log.InfoContext(ctx, "revoked sessions can be read again")
		}
	})
}

// Read updates the list: it reads recent members, and all members when their count shows that this
// gateway or Redis lacks some. Members that Redis lost, by a wipe or a failover, are written back.
func (l *List) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now := l.now()
	oldest := now.Add(-l.life - maxClockSkew).UnixMilli()
	fresh, count, err := l.readRecent(ctx, now, oldest)
	if err != nil {
		return err
	}
	l.mergeEntries(fresh)
	if l.dropExpired(oldest) != count || now.Sub(l.fullRead) >= fullReadInterval {
		if err := l.reconcile(ctx, oldest); err != nil {
			return err
		}
		l.fullRead = now
	}
	l.known.Store(true)
	return nil
}

// readRecent reads the members of the recentWindow, and deletes from Redis those that every gateway
// has dropped. count is how many members this gateway should have.
func (l *List) readRecent(ctx context.Context, now time.Time, oldest int64) (fresh map[string]int64, count int, err error) {
	var members *redis.ZSliceCmd
	var inRange *redis.IntCmd
	_, err = l.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRemRangeByScore(ctx, l.key, "-inf", "("+formatScore(oldest-maxClockSkew.Milliseconds()))
		inRange = p.ZCount(ctx, l.key, formatScore(oldest), "+inf")
		members = p.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: l.key, ByScore: true, Start: formatScore(now.Add(-recentWindow).UnixMilli()), Stop: "+inf", Count: readMax,
		})
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("revoked sessions: %w", pkgredis.Err(err))
	}
	return entriesOf(members.Val(), oldest), int(inRange.Val()), nil
}

func formatScore(ms int64) string { return strconv.FormatInt(ms, 10) }

func entriesOf(members []redis.Z, oldest int64) map[string]int64 {
	entries := make(map[string]int64, len(members))
	for _, z := range members {
		member, _ := z.Member.(string)
		if at := int64(z.Score); at >= oldest && wellFormed(member) {
			entries[member] = at
		}
	}
	return entries
}

// dropExpired drops entries older than any session, and returns how many remain.
func (l *List) dropExpired(oldest int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.entries, func(_ string, at int64) bool { return at < oldest })
	revocations.Set(float64(len(l.entries)))
	return len(l.entries)
}

// reconcile reads the whole list and writes back what it lacks. It reads by rank in parts; members
// that move in between are found by the next Read, since the counts then differ.
func (l *List) reconcile(ctx context.Context, oldest int64) error {
	stored := make(map[string]int64)
	for start := int64(0); ; start += readMax {
		part, err := l.rdb.ZRangeWithScores(ctx, l.key, start, start+readMax-1).Result()
		if err != nil {
			return fmt.Errorf("revoked sessions: %w", pkgredis.Err(err))
		}
		maps.Copy(stored, entriesOf(part, oldest))
		if len(part) < readMax {
			break
		}
	}
	l.mergeEntries(stored)
	missing := l.missing(stored)
	if len(missing) == 0 {
		return nil
	}
	writtenBack.Add(float64(len(missing)))
	return l.writeEntries(ctx, missing)
}

// missing returns the entries that Redis lacks or has with an earlier time.
func (l *List) missing(stored map[string]int64) map[string]int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	missing := make(map[string]int64)
	for m, at := range l.entries {
		if stored[m] < at {
			missing[m] = at
		}
	}
	return missing
}
