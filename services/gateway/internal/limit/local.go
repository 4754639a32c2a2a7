package limit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const shards = 64

// localCounts counts by GCRA in this process. It keeps the theoretical arrival time, tat, by key.
type localCounts struct {
	seed   maphash.Seed
	limit  int // keys per shard
	shards [shards]shard
}

type shard struct {
	mu  sync.Mutex
	tat map[uint64]int64 // ns, by hash: two keys share a bucket with a probability of 2⁻⁶⁴
	_   [40]byte         // padding against false sharing of cache lines
}

// newLocal makes localCounts for about size keys at most.
func newLocal(size int) *localCounts {
	l := &localCounts{seed: maphash.MakeSeed(), limit: max(1, size/shards)}
	for i := range l.shards {
		l.shards[i].tat = make(map[uint64]int64)
	}
	return l
}

// hashKey returns the hash of a key in a scope.
func (l *localCounts) hashKey(scope scope, key string) uint64 {
	return maphash.String(l.seed, key) + uint64(scope)*0x9e3779b97f4a7c15
}

// hashNetwork returns the hash of a network, which differs between the scopes of limits. It does not
// format the network as text.
func (l *localCounts) hashNetwork(scope scope, network netip.Prefix) uint64 {
	b := network.Addr().As16()
	return maphash.Bytes(l.seed, b[:]) + uint64(int(scope)<<8+network.Bits())*0x9e3779b97f4a7c15 //nolint:gosec // not negative
}

// timeToRequest returns what countRequest would return, but counts nothing.
func (l *localCounts) timeToRequest(keyHash uint64, r RateRule, now time.Time) time.Duration {
	return max(0, l.timeLeft(keyHash, now)+r.interval()-r.tolerance())
}

// countRequest counts a request. It returns 0, or how long to wait if the request is not allowed.
func (l *localCounts) countRequest(keyHash uint64, r RateRule, now time.Time) time.Duration {
	return l.count(keyHash, keyCheck{rule: r}, now)
}

// count counts a request of the key with this hash, as gcra.lua does in Redis. It returns 0, or how
// long to wait. For a meter, which refuses nothing, it returns by how much the rule is exceeded.
func (l *localCounts) count(keyHash uint64, c keyCheck, now time.Time) time.Duration {
	s := &l.shards[keyHash%shards]
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	tat, found := s.tat[keyHash]
	if !found && len(s.tat) >= l.limit {
		s.evict(at)
	}
	ahead := time.Duration(max(tat-at, 0))
	if c.isMeter() {
		ahead, excess := c.countByMeter(ahead)
		s.tat[keyHash] = at + int64(ahead)
		return max(0, excess)
	}
	ahead += c.rule.interval()
	if wait := ahead - c.rule.tolerance(); wait > 0 {
		return wait
	}
	s.tat[keyHash] = at + int64(ahead)
	return 0
}

// timeLeft returns the time until the moment that setTime has stored for a key; 0 if there is none.
func (l *localCounts) timeLeft(keyHash uint64, now time.Time) time.Duration {
	s := &l.shards[keyHash%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Duration(s.tat[keyHash]-now.UnixNano()))
}

// setTime stores a time for a key, unless a later one is stored already.
func (l *localCounts) setTime(keyHash uint64, at, now time.Time) {
	s := &l.shards[keyHash%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.tat[keyHash]; !found && len(s.tat) >= l.limit {
		s.evict(now.UnixNano())
	}
	s.tat[keyHash] = max(s.tat[keyHash], at.UnixNano())
}

// evict drops the keys whose whole burst is allowed again. If that frees too little memory, it
// drops arbitrary other keys.
func (s *shard) evict(now int64) {
	before := len(s.tat)
	for k, tat := range s.tat {
		if tat <= now {
			delete(s.tat, k)
		}
	}
	if len(s.tat) > before*3/4 {
		drop := before / 4
		for k := range s.tat {
			if drop--; drop < 0 {
				break
			}
			delete(s.tat, k)
		}
	}
}
