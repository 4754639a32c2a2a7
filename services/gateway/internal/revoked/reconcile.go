package revoked

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	pkgredis "urr.guru/pkg/redis"
)

// endless is the value of scoreSpan.to of a span without an end.
const endless = math.MaxInt64

// scoreSpan is a part of the list, by score: from ≤ score < to.
type scoreSpan struct{ from, to int64 }

func (s scoreSpan) maxScore() string {
	if s.to == endless {
		return "+inf"
	}
	return "(" + formatScore(s.to)
}

func (s scoreSpan) rangeArgs(key string, offset int64) redis.ZRangeArgs {
	return redis.ZRangeArgs{Key: key, ByScore: true, Start: formatScore(s.from), Stop: s.maxScore(), Offset: offset, Count: readMax}
}

// readSpan reads all members of a span, at most readMax with each call.
func (l *List) readSpan(ctx context.Context, s scoreSpan, oldest int64) (map[string]int64, error) {
	stored := make(map[string]int64)
	for offset := int64(0); ; {
		page, err := l.rdb.ZRangeArgsWithScores(ctx, s.rangeArgs(l.key, offset)).Result()
		if err != nil {
			return nil, fmt.Errorf("revoked sessions: %w", pkgredis.Err(err))
		}
		maps.Copy(stored, entriesOf(page, oldest))
		if len(page) < readMax {
			return stored, nil
		}
		if last := int64(page[len(page)-1].Score); last > s.from {
			s.from, offset = last, 0
		} else { // one reply cannot hold all members with this score
			offset += readMax
		}
	}
}

// spans divides the list into parts of about readMax entries each. counts has the number of entries
// that this gateway has in each part.
func (l *List) spans(oldest int64) (all []scoreSpan, counts []int64) {
	l.mu.RLock()
	scores := slices.Sorted(maps.Values(l.entries))
	l.mu.RUnlock()
	from := oldest
	for first := 0; ; {
		next := min(first+readMax, len(scores))
		for next < len(scores) && scores[next] == scores[next-1] {
			next++
		}
		counts = append(counts, int64(next-first))
		if next == len(scores) {
			return append(all, scoreSpan{from, endless}), counts
		}
		all = append(all, scoreSpan{from, scores[next]})
		first, from = next, scores[next]
	}
}

// reconcileAll counts the entries of each span here and in Redis, and reconciles spans that differ.
func (l *List) reconcileAll(ctx context.Context, oldest int64) error {
	all, counts := l.spans(oldest)
	cmds := make([]*redis.IntCmd, len(all))
	_, err := l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range all {
			cmds[i] = p.ZCount(ctx, l.key, formatScore(s.from), s.maxScore())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoked sessions: %w", pkgredis.Err(err))
	}
	var differ []scoreSpan
	for i, s := range all {
		if cmds[i].Val() != counts[i] {
			differ = append(differ, s)
		}
	}
	return l.reconcile(ctx, differ, oldest)
}

// reconcileNext reconciles the span after the one of the last call. After the last span, it records
// that the whole list was read.
func (l *List) reconcileNext(ctx context.Context, now time.Time, oldest int64) error {
	all, _ := l.spans(oldest)
	next := all[len(all)-1]
	for _, s := range all {
		if s.to > l.readTo {
			next = s
			break
		}
	}
	if err := l.reconcile(ctx, []scoreSpan{next}, oldest); err != nil {
		return err
	}
	if l.readTo = next.to; next.to == endless {
		l.readTo, l.fullRead = 0, now
	}
	return nil
}

// reconcile reads spans from Redis, adds what this gateway lacks, and writes what Redis lacks.
// Members that change meanwhile are found by the next Read, since the counts then differ.
func (l *List) reconcile(ctx context.Context, spans []scoreSpan, oldest int64) error {
	stored := make(map[string]int64)
	for _, s := range spans {
		part, err := l.readSpan(ctx, s, oldest)
		if err != nil {
			return err
		}
		maps.Copy(stored, part)
	}
	l.mergeEntries(stored)
	missing := l.missingInRedis(spans, stored)
	if len(missing) == 0 || l.ReadOnly {
		return nil
	}
	writtenBack.Add(float64(len(missing)))
	return l.writeEntries(ctx, missing)
}

// missingInRedis returns the entries of spans that Redis lacks or has with an earlier time.
func (l *List) missingInRedis(spans []scoreSpan, stored map[string]int64) map[string]int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	missing := make(map[string]int64)
	for m, at := range l.entries {
		inSpans := slices.ContainsFunc(spans, func(s scoreSpan) bool { return s.from <= at && at < s.to })
		if inSpans && stored[m] < at {
			missing[m] = at
		}
	}
	return missing
}
