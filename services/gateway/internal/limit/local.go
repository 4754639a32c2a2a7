package limit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const shards = 64

// local is GCRA in this process: for frequent polls, which must not need a call, and for everything
// while Redis is unavailable. It keeps one number per key, the theoretical arrival time, and evicts
// keys whose time has passed.
type local struct {
	seed   maphash.Seed
	limit  int // keys per shard
	shards [shards]shard
}

type shard struct {
	mu  sync.Mutex
	tat map[uint64]int64 // ns; keyed by hash: a collision makes two visitors share a bucket, once in 2⁶⁴
	_   [40]byte         // padding against false sharing of cache lines
}

// newLocal keeps at most about size keys.
func newLocal(size int) *local {
	l := &local{seed: maphash.MakeSeed(), limit: max(1, size/shards)}
	for i := range l.shards {
		l.shards[i].tat = make(map[uint64]int64)
	}
	return l
}

// key returns the hash of a key in a scope. Polls and mutations that fell back have different
// scopes.
func (l *local) key(scope scope, key string) uint64 {
	return maphash.String(l.seed, key) + uint64(scope)*0x9e3779b97f4a7c15
}

// networkKey is key for an address, without formatting it.
func (l *local) networkKey(scope scope, a netip.Addr) uint64 {
	b := a.As16()
	return maphash.Bytes(l.seed, b[:]) + uint64(scope)*0x9e3779b97f4a7c15
}

// take spends one request of the allowance of a key and returns 0, or how long to wait for the next
// one.
func (l *local) take(sum uint64, r Rule, now time.Time) time.Duration { return l.count(sum, r, 0, now) }

// count is the script in Lua: take, or with most > 0 a meter.
func (l *local) count(sum uint64, r Rule, most time.Duration, now time.Time) time.Duration {
	s := &l.shards[sum%shards]
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	tat, known := s.tat[sum]
	if !known && len(s.tat) >= l.limit {
		s.evict(at)
	}
	next := max(tat, at) + int64(r.interval())
	beyond := next - at - int64(r.tolerance())
	if beyond > 0 && most == 0 {
		return time.Duration(beyond)
	}
	if over := beyond - int64(most); over > 0 {
		beyond, next = beyond-over, next-over
	}
	s.tat[sum] = next
	return time.Duration(max(0, beyond))
}

// evict drops the keys whose allowance is full again. If that is not enough, it drops arbitrary
// keys, so that a flood of keys cannot use up the memory.
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
