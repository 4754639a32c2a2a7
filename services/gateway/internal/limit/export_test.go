package limit

import (
	"context"
	"net/netip"
)

// Keys returns how many keys the process keeps.
func Keys(l *Limiter) int {
	n := 0
	for i := range l.local.shards {
		n += len(l.local.shards[i].tat)
	}
	return n
}

// Parts returns the number of keys whose requests the process has allowed by itself.
func Parts(l *Limiter) int {
	l.parts.mu.Lock()
	defer l.parts.mu.Unlock()
	return len(l.parts.keys)
}

// Report reports what the process has allowed by itself, as it does after reportEvery.
func Report(ctx context.Context, l *Limiter) {
	l.parts.reporting.Lock()
	defer l.parts.reporting.Unlock()
	l.parts.report(ctx)
}

// These return the names of keys in Redis.
func UserKey(user string) string       { return keyCheck{scope: byUser, key: user}.redisKey() }
func VisitorKey(visitor string) string { return keyCheck{scope: byVisitor, key: visitor}.redisKey() }
func NewVisitorKey(p netip.Prefix) string {
	return keyCheck{scope: byNewVisitor, key: p.String()}.redisKey()
}
