package proof

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"
)

const (
	// maxLocal is the most keys in the process. A visitor whose key is evicted owes another proof.
	maxLocal = 100_000
	// pause is how long Redis is not called after a failure.
	pause = time.Second
)

// paidProofs remembers, until the proof expires, which visitors have done the work for a position:
// in Redis, for all gateways, and in the process, for the time in which Redis is unavailable.
type paidProofs struct {
	rdb       redis.UniversalClient // nil: in the process only
	local     *otter.Cache[string, time.Time]
	timeout   time.Duration // of a call to Redis
	now       func() time.Time
	downUntil atomic.Int64 // ns
}

func newPaid(rdb redis.UniversalClient, timeout time.Duration, now func() time.Time) (*paidProofs, error) {
	local, err := otter.New(&otter.Options[string, time.Time]{
		MaximumSize: maxLocal,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, time.Time]) time.Duration {
			return max(time.Millisecond, e.Value.Sub(now()))
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("memory of proofs: %w", err)
	}
	return &paidProofs{rdb: rdb, local: local, timeout: timeout, now: now}, nil
}

func (d WorkDebt) key() string {
	return "proof:" + d.Event + ":" + strconv.FormatInt(d.Round, 10) + ":" + d.Visitor
}

// add remembers a key until end, and reports whether it was new.
func (p *paidProofs) add(ctx context.Context, key string, end time.Time) bool {
	paid := p.hasLocal(key)
	p.local.Set(key, end)
	if paid || !p.redisUsable() {
		return !paid
	}
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	err := p.rdb.SetArgs(limited, key, 1, redis.SetArgs{Mode: "NX", TTL: end.Sub(p.now())}).Err()
	if err == redis.Nil { //nolint:errorlint // as go-redis documents it: the key was there
		return false
	}
	p.recordFailure(ctx, err)
	return true
}

func (p *paidProofs) has(ctx context.Context, key string) bool {
	if p.hasLocal(key) {
		return true
	}
	if !p.redisUsable() {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	n, err := p.rdb.Exists(limited, key).Result()
	p.recordFailure(ctx, err)
	return n > 0
}

// hasLocal reports whether the process remembers a key. It compares the key's end with the time,
// since the expiry of cache entries only frees memory.
func (p *paidProofs) hasLocal(key string) bool {
	end, ok := p.local.GetIfPresent(key)
	return ok && p.now().Before(end)
}

func (p *paidProofs) redisUsable() bool {
	return p.rdb != nil && p.now().UnixNano() >= p.downUntil.Load()
}

// recordFailure pauses the calls to Redis after an error, except one because the client has left.
func (p *paidProofs) recordFailure(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		p.downUntil.Store(p.now().Add(pause).UnixNano())
	}
}
