// Package limit limits the request rate per network, visitor and user by GCRA (the generic cell
// rate algorithm of ITU-T I.371), which needs one number per key. Mutations are counted in Redis,
// over all gateways; each process may allow a small part by itself, and remembers which keys were
// refused. Polls, and mutations while Redis is unavailable, are counted in the process.
package limit

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/errs"
)

// RateRule allows Burst requests at once, and after them Rate requests per second. A Rate of 0 or
// less means no limit.
type RateRule struct {
	Rate  float64
	Burst int
}

func (r RateRule) interval() time.Duration {
	return max(time.Microsecond, time.Duration(float64(time.Second)/r.Rate))
}

func (r RateRule) multipliedBy(n int) RateRule {
	return RateRule{Rate: r.Rate * float64(n), Burst: r.Burst * n}
}

func (r RateRule) tolerance() time.Duration { return r.interval() * time.Duration(max(1, r.Burst)) }

// Rules are the rules for one class of requests. Network has a generous rule, since a network can
// be the NAT of a carrier; a visitor or a user is one person.
type Rules struct {
	Network, Visitor, User RateRule
}

// Config has the settings of a Limiter.
type Config struct {
	// Mutations are the rules for requests that change something, Polls for all others.
	Mutations, Polls Rules
	// NewVisitors is the rule for new visitor ids of a network, over all gateways, since each id can
	// get a position in a waiting room. An IPv6 /56 may get 4 times and a /48 16 times as many as a
	// /64.
	NewVisitors RateRule
	// SignIns is such a rule for returns from the identity provider, since each can cost a call to the
	// provider, which limits its clients.
	SignIns RateRule
	Work    WorkRule
	// Keys is the most keys that are counted in the process, 32 bytes each.
	Keys int
	// Timeout is the time-out of a call to Redis. After a failure, Redis is not called for Pause.
	Timeout, Pause time.Duration
}

// Subject identifies who sent a request. An empty field (a zero Addr) is not counted.
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
	bySignIn
	// pollOffset is added to the scopes of polls, since polls are counted apart from mutations.
	pollOffset
)

// scopeNames are parts of the keys in Redis, which counts no polls.
var scopeNames = [pollOffset]string{byNetwork: "net", byVisitor: "visitor", byUser: "user", byNewVisitor: "new", byFreeVisitor: "free", bySignIn: "sign-in"}

// Limiter counts requests and refuses those beyond the rules. It is safe for concurrent use.
type Limiter struct {
	cfg    Config
	local  *localCounts
	shared *redisCounts // nil: all counts are in the process
	parts  *localParts
	// refused has, by key, until when it is refused, or until when Redis decides about a meter.
	refused   *localCounts
	now       func() time.Time
	downUntil atomic.Int64 // ns
}

// New makes a Limiter. Without a client (nil) all counts are in the process.
func New(cfg Config, rdb redis.UniversalClient, now func() time.Time) *Limiter {
	l := &Limiter{cfg: cfg, local: newLocal(cfg.Keys), refused: newLocal(cfg.Keys), now: now}
	if rdb != nil {
		l.shared = newShared(rdb, cfg.Timeout)
		l.parts = &localParts{send: l.sendReport, isSpent: l.isSpent, limit: cfg.Keys, keys: make(map[partKey]*part)}
	}
	return l
}

// CountMutation counts a request that changes something. It fails with errs.ErrRateLimited, which
// has the time after which the next one is allowed.
func (l *Limiter) CountMutation(ctx context.Context, s Subject) error {
	return l.countMutation(ctx, s, s.keyChecks(l.cfg))
}

// countMutation counts a request for checks, and, in this process only, for the IPv6 prefixes that
// are wider than the network which Redis knows. A wide prefix that has no request left refuses before
// Redis is called. One that Redis refuses is not counted for it.
func (l *Limiter) countMutation(ctx context.Context, s Subject, checks []keyCheck) error {
	wide, rule := prefixesOf(s.Address)[1:], l.cfg.Mutations.Network
	if rule.Rate <= 0 {
		wide = nil
	}
	if wait := l.countPrefixes(wide, byNetwork, s.Address, rule, l.local.timeToRequest); wait > 0 {
		return rateLimitedError(wait)
	}
	if _, err := l.countOrRefuse(ctx, checks); err != nil {
		return err
	}
	return rateLimitedError(l.countPrefixes(wide, byNetwork, s.Address, rule, l.local.countRequest))
}

// countPrefixes counts a request for these prefixes of an address, the narrowest first, until one
// refuses it: the others in a wide network do not suffer from what is refused to one. It returns how
// long to wait, or 0.
func (l *Limiter) countPrefixes(
	all []prefix, s scope, a netip.Addr, narrow RateRule, count func(keyHash uint64, r RateRule, now time.Time) time.Duration,
) time.Duration {
	now := l.now()
	for _, p := range all {
		network, err := a.Prefix(p.bits)
		if err != nil {
			continue
		}
		if wait := count(l.local.hashNetwork(s, network), narrow.multipliedBy(p.times), now); wait > 0 {
			return wait
		}
	}
	return 0
}

// CountNewVisitor counts a new visitor of a network. (The request itself is counted separately.) It
// fails like CountMutation. Otherwise it returns the bits of the proof of work that the visitor
// owes for each position, 0 for none. Refused visitors do not add to the work that later ones owe.
func (l *Limiter) CountNewVisitor(ctx context.Context, address netip.Addr) (bits int, err error) {
	if !address.IsValid() {
		return 0, nil
	}
	if l.cfg.NewVisitors.Rate > 0 {
		if _, err := l.countOrRefuse(ctx, appendNetworkChecks(nil, address, keyCheck{scope: byNewVisitor, rule: l.cfg.NewVisitors})); err != nil {
			return 0, err
		}
	}
	work := l.cfg.Work
	if work.Free.Rate <= 0 {
		return 0, nil
	}
	checks := appendNetworkChecks(nil, address, keyCheck{scope: byFreeVisitor, rule: work.Free, maxExcess: work.maxExcess(), halfLife: work.HalfLife})
	excess, err := l.count(ctx, checks)
	if err != nil {
		return 0, err
	}
	for i, c := range checks {
		bits = max(bits, work.owedBits(c.rule, excess[i]))
	}
	return bits, nil
}

// CountSignIn counts the return of a browser from the identity provider. It fails like
// CountMutation.
func (l *Limiter) CountSignIn(ctx context.Context, s Subject) error {
	checks := s.keyChecks(l.cfg)
	if s.Address.IsValid() && l.cfg.SignIns.Rate > 0 {
		checks = appendNetworkChecks(checks, s.Address, keyCheck{scope: bySignIn, rule: l.cfg.SignIns})
	}
	return l.countMutation(ctx, s, checks)
}

// OwedBits returns how many bits of work a visitor owes now. bits is what the visitor owed when the
// id was issued. Settings that were lowered since then apply to existing ids too.
func (l *Limiter) OwedBits(bits int) int {
	if l.cfg.Work.Free.Rate <= 0 {
		return 0
	}
	return min(bits, l.cfg.Work.MaxBits)
}

// countOrRefuse counts a request for all checks, and fails if one of them does not allow the
// request. It returns, for each check, by how much the request exceeds what is allowed.
func (l *Limiter) countOrRefuse(ctx context.Context, checks []keyCheck) ([]time.Duration, error) {
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
	return excess, rateLimitedError(wait)
}

// count counts a request for all checks: in this process if its part suffices or Redis is
// unavailable, else in Redis. It does not count a request with a key that Redis has refused.
func (l *Limiter) count(ctx context.Context, checks []keyCheck) ([]time.Duration, error) {
	now, excess := l.now(), make([]time.Duration, len(checks))
	if l.shared == nil {
		l.countAlone(checks, now, excess)
		return excess, nil
	}
	asksRedis, refused := l.recall(checks, now, excess)
	switch {
	case refused:
		countDecision(byRefusal)
		return excess, nil
	case now.UnixNano() < l.downUntil.Load():
		l.countAlone(checks, now, excess)
		countDecision(byProcess)
		return excess, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	counts, indexes := l.parts.allow(checks, asksRedis)
	if len(counts) == 0 {
		countDecision(byPart)
		return excess, nil
	}
	// The call also reports earlier requests, so it goes on even if this client disconnects.
	answers, err := l.shared.calls.Do(context.WithoutCancel(ctx), counts)
	if err == nil {
		countDecision(byRedis)
		l.remember(counts, answers) // before the parts are free again
		l.parts.settle(counts)
		for k, i := range indexes {
			excess[i] = answers[k].excess
		}
		return excess, nil
	}
	if errors.Is(err, errs.ErrOverloaded) { // the call was never sent
		l.parts.giveBack(counts)
	}
	l.parts.settle(counts)
	l.downUntil.Store(now.Add(l.cfg.Pause).UnixNano())
	l.countAlone(checks, now, excess)
	countDecision(byProcess)
	return excess, nil
}

func (l *Limiter) countAlone(checks []keyCheck, now time.Time, excess []time.Duration) {
	for i, c := range checks {
		excess[i] = l.local.count(l.local.hashKey(c.scope, c.key), c, now)
	}
}

// recall looks up what Redis has answered about the keys before. It sets the excess of keys that
// Redis has refused, and asksRedis for meters whose rule is exceeded.
func (l *Limiter) recall(checks []keyCheck, now time.Time, excess []time.Duration) (asksRedis []bool, refused bool) {
	asksRedis = make([]bool, len(checks))
	for i, c := range checks {
		left := l.refused.timeLeft(l.refused.hashKey(c.scope, c.key), now)
		switch {
		case left <= 0:
		case c.isMeter():
			asksRedis[i] = true
		default:
			excess[i], refused = left, true
		}
	}
	return asksRedis, refused
}

// isSpent reports whether Redis has answered that no request with the key is allowed now.
func (l *Limiter) isSpent(c keyCheck) bool {
	return l.refused.timeLeft(l.refused.hashKey(c.scope, c.key), l.now()) > 0
}

// remember stores which keys may have no request for some time, as Redis has answered.
func (l *Limiter) remember(counts []keyCount, answers []keyAnswer) {
	now := l.now()
	for i, c := range counts {
		wait := answers[i].next
		if !c.isMeter() {
			wait = max(wait, answers[i].excess)
		}
		if wait > 0 {
			l.refused.setTime(l.refused.hashKey(c.scope, c.key), now.Add(wait), now)
		}
	}
}

// sendReport reports to Redis what this process has allowed by itself, once, even if that fails.
func (l *Limiter) sendReport(ctx context.Context, counts []keyCount) {
	answers, err := l.shared.count(ctx, counts)
	if err != nil {
		l.downUntil.Store(l.now().Add(l.cfg.Pause).UnixNano())
		countDecision(byLoss)
		return
	}
	countDecision(byReport)
	l.remember(counts, answers)
}

// CountPoll counts a request that changes nothing, in this process. It fails like CountMutation.
func (l *Limiter) CountPoll(s Subject) error {
	r, now := &l.cfg.Polls, l.now()
	var wait time.Duration
	if s.Address.IsValid() && r.Network.Rate > 0 {
		wait = l.countPrefixes(prefixesOf(s.Address), byNetwork+pollOffset, s.Address, r.Network, l.local.countRequest)
	}
	if s.Visitor != "" && r.Visitor.Rate > 0 {
		wait = max(wait, l.local.countRequest(l.local.hashKey(byVisitor+pollOffset, s.Visitor), r.Visitor, now))
	}
	if s.User != "" && r.User.Rate > 0 {
		wait = max(wait, l.local.countRequest(l.local.hashKey(byUser+pollOffset, s.User), r.User, now))
	}
	return rateLimitedError(wait)
}

func (l *Limiter) Close(ctx context.Context) error {
	if l.shared == nil {
		return nil
	}
	l.parts.close(ctx)
	return l.shared.calls.Close(ctx)
}

// How many requests of a key a process may allow before it reports them.
const (
	// personPart is for visitors and users: the burst divided by personPart.
	personPart = 5
	// networkPart is for networks: the burst divided by networkPart.
	networkPart = 100
	// newcomersPart is for new visitors or sign-ins of a network. It is at most a fifth of the burst.
	newcomersPart = 3
)

func (s Subject) keyChecks(cfg Config) []keyCheck {
	r := cfg.Mutations
	buf := make([]keyCheck, 0, 6)
	if s.Address.IsValid() && r.Network.Rate > 0 {
		buf = append(buf, keyCheck{scope: byNetwork, key: networkOf(s.Address).String(), rule: r.Network, part: r.Network.Burst / networkPart})
	}
	if s.Visitor != "" && r.Visitor.Rate > 0 {
		buf = append(buf, keyCheck{scope: byVisitor, key: s.Visitor, rule: r.Visitor, part: r.Visitor.Burst / personPart})
	}
	if s.User != "" && r.User.Rate > 0 {
		buf = append(buf, keyCheck{scope: byUser, key: s.User, rule: r.User, part: r.User.Burst / personPart})
	}
	return buf
}

// appendNetworkChecks appends the check c for each network of the address a.
func appendNetworkChecks(buf []keyCheck, a netip.Addr, c keyCheck) []keyCheck {
	newcomers := min(newcomersPart, c.rule.Burst/personPart)
	if !a.Is6() {
		c.key, c.part = a.String(), newcomers
		return append(buf, c)
	}
	narrow := c.rule
	for _, wide := range prefixesOf(a) {
		if p, err := a.Prefix(wide.bits); err == nil {
			c.key, c.rule, c.part = p.String(), narrow.multipliedBy(wide.times), newcomers*wide.times
			buf = append(buf, c)
		}
	}
	return buf
}

func rateLimitedError(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return errs.ErrRateLimited.WithRetry(wait)
}
