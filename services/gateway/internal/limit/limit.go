// Package limit bounds the request rate per network, visitor and user by GCRA (the generic cell
// rate algorithm of ITU-T I.371): an even rate with a burst, from one number per key. Mutations are
// counted in Redis, over all gateways. Polls, and mutations while Redis is unavailable, are counted in
// the process.
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
	// NewVisitors bounds the visitor ids that one network may get, over all gateways, since each may
	// take a position in a waiting room. An IPv6 /56 may get 4 times and a /48 16 times as many as a
	// /64.
	NewVisitors Rule
	Work        Work
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
}

type scope byte

const (
	byNetwork scope = iota + 1
	byVisitor
	byUser
	byNewVisitor
	byFreeVisitor
	// pollOffset is added for polls, whose buckets are separate from those of purchases.
	pollOffset
)

// scopeNames are parts of the keys in Redis, which counts no polls.
var scopeNames = [pollOffset]string{byNetwork: "net", byVisitor: "visitor", byUser: "user", byNewVisitor: "new", byFreeVisitor: "free"}

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

// Mutation counts a request that changes something. It fails with errs.ErrRateLimited, which has the
// time until the next one is allowed.
func (l *Limiter) Mutation(ctx context.Context, s Subject) error {
	_, err := l.spend(ctx, s.checks(l.cfg))
	return err
}

// NewVisitor is Mutation for a request that creates a visitor. It returns the bits of the proof of
// work that the visitor owes for each position, 0 for none.
func (l *Limiter) NewVisitor(ctx context.Context, s Subject) (bits int, err error) {
	checks := s.checks(l.cfg)
	if s.Address.IsValid() && l.cfg.NewVisitors.Rate > 0 {
		checks = appendNewVisitor(checks, s.Address, check{scope: byNewVisitor, rule: l.cfg.NewVisitors})
	}
	if s.Address.IsValid() && l.cfg.Work.Free.Rate > 0 {
		checks = appendNewVisitor(checks, s.Address, check{scope: byFreeVisitor, rule: l.cfg.Work.Free, maxExcess: l.cfg.Work.maxExcess()})
	}
	excess, err := l.spend(ctx, checks)
	if err != nil {
		return 0, err
	}
	for i, c := range checks {
		if c.scope == byFreeVisitor {
			bits = max(bits, l.cfg.Work.bits(c.rule, excess[i]))
		}
	}
	return bits, nil
}

// Owed returns how many bits a visitor owes whose id was issued with so many: lower settings also
// apply to ids that exist.
func (l *Limiter) Owed(bits int) int {
	if l.cfg.Work.Free.Rate <= 0 {
		return 0
	}
	return min(bits, l.cfg.Work.MaxBits)
}

// spend counts the checks and fails if one of them refuses. It returns the excess of each over its
// allowance.
func (l *Limiter) spend(ctx context.Context, checks []check) ([]time.Duration, error) {
	if len(checks) == 0 {
		return nil, nil
	}
	excess, err := l.count(ctx, checks)
	if err != nil {
		return nil, err
	}
	var wait time.Duration
	for i, c := range checks {
		if c.maxExcess == 0 {
			wait = max(wait, excess[i])
		}
	}
	return excess, refuse(wait)
}

// count counts in Redis, or in the process while that is unavailable.
func (l *Limiter) count(ctx context.Context, checks []check) ([]time.Duration, error) {
	now := l.now()
	if l.shared != nil && now.UnixNano() >= l.downUntil.Load() {
		excess, err := l.shared.calls.Do(ctx, checks)
		switch {
		case err == nil:
			return excess, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		l.downUntil.Store(now.Add(l.cfg.Pause).UnixNano())
	}
	excess := make([]time.Duration, len(checks))
	for i, c := range checks {
		excess[i] = l.local.count(l.local.key(c.scope, c.key), c.rule, c.maxExcess, now)
	}
	return excess, nil
}

// Poll counts a request that changes nothing.
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

func (l *Limiter) Close(ctx context.Context) error {
	if l.shared == nil {
		return nil
	}
	return l.shared.calls.Close(ctx)
}

func (s Subject) checks(cfg Config) []check {
	r := cfg.Mutations
	buf := make([]check, 0, 9)
	if s.Address.IsValid() && r.Network.Rate > 0 {
		buf = append(buf, check{scope: byNetwork, key: networkOf(s.Address).String(), rule: r.Network})
	}
	if s.Visitor != "" && r.Visitor.Rate > 0 {
		buf = append(buf, check{scope: byVisitor, key: s.Visitor, rule: r.Visitor})
	}
	if s.User != "" && r.User.Rate > 0 {
		buf = append(buf, check{scope: byUser, key: s.User, rule: r.User})
	}
	return buf
}

// appendNewVisitor adds c for the networks of a new visitor. The owner of an IPv6 /48 has 65,536
// networks of /64, so wider prefixes are counted too.
func appendNewVisitor(buf []check, a netip.Addr, c check) []check {
	if !a.Is6() {
		c.key = a.String()
		return append(buf, c)
	}
	narrow := c.rule
	for _, wide := range [...]struct{ bits, times int }{{64, 1}, {56, 4}, {48, 16}} {
		if p, err := a.Prefix(wide.bits); err == nil {
			c.key, c.rule = p.String(), narrow.times(wide.times)
			buf = append(buf, c)
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
