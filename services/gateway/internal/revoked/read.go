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
	// every is how often the list is read, and so about how long a revocation takes to reach all
	// gateways.
	every = time.Second
	// recent is how far back each read goes. What is written with an older time, by a clock that is
	// far behind, is seen by the next read of everything.
	recent = 2 * time.Minute
	// everything is how often the whole list is read, even if its length says that nothing is
	// missing.
	everything = time.Minute
	// readMax bounds the members of one answer.
	readMax = 5000
	// timeout bounds one Read.
	timeout = 5 * time.Second
)

// Watch reads the list each second until ctx ends. Redis being away is logged when it begins and
// when it is over; the last list counts.
func (l *List) Watch(ctx context.Context, log *slog.Logger) error {
	if l.rdb == nil {
		return nil
	}
	failing := false
	return loop.Every(ctx, every, func(ctx context.Context) {
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

// Read brings the list up to date: what was written recently, and everything when the number of
// members says that this gateway or Redis lacks some. What Redis lacks, after a wipe or a failover
// that lost writes, is written back.
func (l *List) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now := l.now()
	oldest := now.Add(-l.life - slack).UnixMilli()
	fresh, count, err := l.readRecent(ctx, now, oldest)
	if err != nil {
		return err
	}
	l.remember(fresh)
	if l.forget(oldest) != count || now.Sub(l.fullRead) >= everything {
		if err := l.reconcile(ctx, oldest); err != nil {
			return err
		}
		l.fullRead = now
	}
	l.known.Store(true)
	return nil
}

// readRecent also drops from Redis what every gateway has forgotten. The number is that of the
// members which this one remembers.
func (l *List) readRecent(ctx context.Context, now time.Time, oldest int64) (fresh map[string]int64, count int, err error) {
	var members *redis.ZSliceCmd
	var number *redis.IntCmd
	_, err = l.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRemRangeByScore(ctx, l.key, "-inf", "("+score(oldest-slack.Milliseconds()))
		number = p.ZCount(ctx, l.key, score(oldest), "+inf")
		members = p.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: l.key, ByScore: true, Start: score(now.Add(-recent).UnixMilli()), Stop: "+inf", Count: readMax,
		})
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("revoked sessions: %w", pkgredis.Err(err))
	}
	return entriesOf(members.Val(), oldest), int(number.Val()), nil
}

func score(ms int64) string { return strconv.FormatInt(ms, 10) }

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

// forget drops what is older than any session, and returns how many are left.
func (l *List) forget(oldest int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.entries, func(_ string, at int64) bool { return at < oldest })
	revocations.Set(float64(len(l.entries)))
	return len(l.entries)
}

// reconcile reads the whole list and writes back what it lacks. It is read by rank in parts: what
// moves meanwhile is seen by the next Read, as the numbers then differ.
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
	l.remember(stored)
	missing := l.missing(stored)
	if len(missing) == 0 {
		return nil
	}
	writtenBack.Add(float64(len(missing)))
	return l.write(ctx, missing)
}

// missing are the entries of which Redis has none, or an earlier time.
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
