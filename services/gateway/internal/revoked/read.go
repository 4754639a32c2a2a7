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
	// readInterval is the time between two reads of the list: a revocation takes about as long to
	// reach all gateways.
	readInterval = time.Second
	// overlap is how far before the last read each read begins, since the clocks of gateways differ.
	// Members with a still older time, from a gateway whose clock is slow, are found because the
	// counts differ.
	overlap = 10 * time.Second
	// fullReadInterval is the time between two reads of the whole list, one part per Read, even if the
	// counts show that nothing is missing.
	fullReadInterval = time.Minute
	// readMax is the most members of one reply, which takes Redis about 2 ms.
	readMax = 5000
	// timeout is the time limit of one Read.
	timeout = 5 * time.Second
)

// Watch reads the list each second until ctx ends. While Redis is unavailable, which is logged
// once, the last list is used.
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

// Read updates the list. It reads the members since the last Read. If their count shows that this
// gateway or Redis lacks some, it also reads the parts of the list that differ. It writes back
// members that Redis has lost, by a wipe or a failover.
func (l *List) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now := l.now()
	oldest := now.Add(-l.life - maxClockSkew).UnixMilli()
	fresh, count, err := l.readNew(ctx, oldest)
	if err != nil {
		return err
	}
	l.mergeEntries(fresh)
	if l.read.IsZero() {
		l.fullRead = now
	}
	l.read = now
	switch {
	case l.dropExpired(oldest) != count:
		err = l.reconcileAll(ctx, oldest)
	case now.Sub(l.fullRead) >= fullReadInterval:
		err = l.reconcileNext(ctx, now, oldest)
	}
	if err != nil {
		return err
	}
	l.wasRead.Store(true)
	return nil
}

// readNew reads the members written since the last Read, and deletes from Redis those that every
// gateway has dropped as too old. count is the number of members in Redis not older than oldest.
func (l *List) readNew(ctx context.Context, oldest int64) (fresh map[string]int64, count int, err error) {
	since := scoreSpan{from: max(oldest, l.read.Add(-overlap).UnixMilli()), to: endless}
	var members *redis.ZSliceCmd
	var inRange *redis.IntCmd
	_, err = l.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		if !l.ReadOnly {
			p.ZRemRangeByScore(ctx, l.key, "-inf", "("+formatScore(oldest-maxClockSkew.Milliseconds()))
		}
		inRange = p.ZCount(ctx, l.key, formatScore(oldest), "+inf")
		members = p.ZRangeArgsWithScores(ctx, since.rangeArgs(l.key, 0))
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("revoked sessions: %w", pkgredis.Err(err))
	}
	page := members.Val()
	fresh = entriesOf(page, oldest)
	if len(page) == readMax {
		since.from = int64(page[readMax-1].Score)
		rest, err := l.readSpan(ctx, since, oldest)
		if err != nil {
			return nil, 0, err
		}
		maps.Copy(fresh, rest)
	}
	return fresh, int(inRange.Val()), nil
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

// dropExpired drops the entries older than oldest, since no session is older. It returns how many
// are left.
func (l *List) dropExpired(oldest int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.entries, func(_ string, at int64) bool { return at < oldest })
	revocations.Set(float64(len(l.entries)))
	return len(l.entries)
}
