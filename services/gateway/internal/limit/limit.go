// Package limit bounds the request rate per network, visitor and user by GCRA (the generic cell
// rate algorithm of ITU-T I.371): an even rate with a burst, from one number per key. Mutations are
// counted in Redis, over all gateways. Polls are counted in the process, which also takes over
// while Redis is unavailable.
package limit

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/errs"
)

// Rule is an allowance: Burst requests at once, refilled at Rate per second. A Rate of 0 or less
// means no limit.
type Rule struct {
	Rate  float64
	Burst int
}

func (r Rule) interval() time.Duration {
	return max(time.Microsecond, time.Duration(float64(time.Second)/r.Rate))
}

func (r Rule) times(n int) Rule { return Rule{Rate: r.Rate * float64(n), Burst: r.Burst * n} }

func (r Rule) tolerance() time.Duration { return r.interval() * time.Duration(max(1, r.Burst)) }

// Rules are the allowances of one class of requests. A network may be the NAT of a carrier, so its
// rule is generous; a visitor or a user is one person.
type Rules struct {
	Network, Visitor, User Rule
}

// Config of a Limiter.
type Config struct {
	// Mutations bounds requests that change something, Polls all others.
	Mutations, Polls Rules
	// NewVisitors bounds the visitor ids that one network may get, over all gateways: ids cost
	// nothing, and each is a place in a waiting room. An IPv6 /56 may get 4 times and a /48 16
	// times as many as a /64.
	NewVisitors Rule
	// Keys bounds the memory of the counts in the process: about this many keys, 32 bytes each.
	Keys int
	// Timeout bounds a call to Redis. After a failure Redis is not called for Pause.
	Timeout, Pause time.Duration
}

// Subject is who sent the request; "" and the zero Addr are not counted.
type Subject struct {
	Address netip.Addr
	Visitor string
	User    string
	// New is set when the request creates a visitor id.
	New bool
}

type scope byte

const (
	byNetwork scope = iota + 1
	byVisitor
	byUser
	byNewVisitor
	// polls have separate buckets, so that polling does not use up the allowance for a purchase.
	pollOffset
)

func (s scope) String() string {
	switch s {
	case byNetwork:
		return "net"
	case byVisitor:
		return "visitor"
	case byUser:
		return "user"
	case byNewVisitor:
		return "new"
	default:
		return "other"
	}
}

// Limiter is safe for concurrent use.
type Limiter struct {
	cfg       Config
	local     *local
	shared    *shared
	now       func() time.Time
	downUntil atomic.Int64 // ns
}

// New makes a Limiter. Without a client (nil) all counts are in the process.
func New(cfg Config, rdb redis.UniversalClient, now func() time.Time) *Limiter {
	l := &Limiter{cfg: cfg, local: newLocal(cfg.Keys), now: now}
	if rdb != nil {
		l.shared = newShared(rdb, cfg.Timeout)
	}
	return l
}

// Mutation spends one request that changes something or creates a visitor; errs.ErrRateLimited
// carries the time until the next one is allowed.
func (l *Limiter) Mutation(ctx context.Context, s Subject) error {
	checks := s.checks(l.cfg)
	if len(checks) == 0 {
		return nil
	}
	now := l.now()
	if l.shared != nil && now.UnixNano() >= l.downUntil.Load() {
		wait, err := l.shared.take(ctx, checks)
		switch {
		case err == nil:
			return refuse(wait)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		l.downUntil.Store(now.Add(l.cfg.Pause).UnixNano())
	}
	return refuse(l.takeLocal(checks, now))
}

// Poll spends one request that changes nothing.
func (l *Limiter) Poll(s Subject) error {
	r, now := &l.cfg.Polls, l.now()
	var wait time.Duration
	if s.Address.IsValid() && r.Network.Rate > 0 {
		wait = l.local.take(l.local.networkKey(byNetwork+pollOffset, networkOf(s.Address)), r.Network, now)
	}
	if s.Visitor != "" && r.Visitor.Rate > 0 {
		wait = max(wait, l.local.take(l.local.key(byVisitor+pollOffset, s.Visitor), r.Visitor, now))
	}
	if s.User != "" && r.User.Rate > 0 {
		wait = max(wait, l.local.take(l.local.key(byUser+pollOffset, s.User), r.User, now))
	}
	return refuse(wait)
}

func (l *Limiter) takeLocal(checks []check, now time.Time) time.Duration {
	var wait time.Duration
	for _, c := range checks {
		wait = max(wait, l.local.take(l.local.key(c.scope, c.key), c.rule, now))
	}
	return wait
}

// Close waits for the calls to Redis in flight.
func (l *Limiter) Close(ctx context.Context) error {
	if l.shared == nil {
		return nil
	}
	return l.shared.close(ctx)
}

func (s Subject) checks(cfg Config) []check {
	r := cfg.Mutations
	buf := make([]check, 0, 6)
	if s.Address.IsValid() && r.Network.Rate > 0 {
		buf = append(buf, check{byNetwork, networkOf(s.Address).String(), r.Network})
	}
	if s.Visitor != "" && r.Visitor.Rate > 0 {
		buf = append(buf, check{byVisitor, s.Visitor, r.Visitor})
	}
	if s.User != "" && r.User.Rate > 0 {
		buf = append(buf, check{byUser, s.User, r.User})
	}
	if s.New && s.Address.IsValid() && cfg.NewVisitors.Rate > 0 {
		buf = appendNewVisitor(buf, s.Address, cfg.NewVisitors)
	}
	return buf
}

// appendNewVisitor adds the checks of a new visitor. The owner of an IPv6 /48 has 65,536 networks
// of /64, so wider prefixes are bounded too.
func appendNewVisitor(buf []check, a netip.Addr, r Rule) []check {
	if !a.Is6() {
		return append(buf, check{byNewVisitor, a.String(), r})
	}
	for _, wide := range [...]struct{ bits, times int }{{64, 1}, {56, 4}, {48, 16}} {
		if p, err := a.Prefix(wide.bits); err == nil {
			buf = append(buf, check{byNewVisitor, p.String(), r.times(wide.times)})
		}
	}
	return buf
}

func refuse(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return errs.ErrRateLimited.WithRetry(wait)
}
