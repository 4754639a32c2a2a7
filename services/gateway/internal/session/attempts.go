package session

import (
	"context"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/claims"
)

const (
	// maxUsed is the most attempts that the process remembers. An evicted attempt could be used again
	// while Redis is unavailable.
	maxUsed = 100_000
	// redisTimeout is the time-out of the call to Redis, for which the user waits.
	redisTimeout = 500 * time.Millisecond
)

// usedAttempts remembers, until they expire, the sign-in attempts with which browsers have returned
// from the provider: in Redis, for all gateways, and in the process. Each can be used once.
// Otherwise a program could repeat one with made-up codes, and use up the calls that the provider
// allows.
type usedAttempts struct {
	rdb   redis.UniversalClient // nil: in the process only
	local *otter.Cache[string, time.Time]
	now   func() time.Time
}

func newUsedAttempts(rdb redis.UniversalClient, now func() time.Time) (*usedAttempts, error) {
	local, err := otter.New(&otter.Options[string, time.Time]{
		MaximumSize: maxUsed,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, time.Time]) time.Duration {
			return max(time.Millisecond, e.Value.Sub(now()))
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("memory of sign-in attempts: %w", err)
	}
	return &usedAttempts{rdb: rdb, local: local, now: now}, nil
}

// markUsed marks an attempt as used, and reports whether it was unused before. While Redis is
// unavailable users can still sign in, and an attempt can be used once at each gateway.
func (u *usedAttempts) markUsed(ctx context.Context, a *claims.SignIn) bool {
	if _, first := u.local.SetIfAbsent(a.State, a.Expiry()); !first || u.rdb == nil {
		return first
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	err := u.rdb.SetArgs(ctx, "sign-in:"+a.State, 1, redis.SetArgs{Mode: "NX", TTL: max(time.Second, a.Expiry().Sub(u.now()))}).Err()
	return err != redis.Nil //nolint:errorlint // as go-redis documents it: the key was there
}
