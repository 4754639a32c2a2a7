package limit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const shards = 64

// local is GCRA in this process. It keeps the theoretical arrival time of each key.
type local struct {
	seed   maphash.Seed
	limit  int // keys per shard
	shards [shards]shard
}

type shard struct {
	mu  sync.Mutex
	tat map[uint64]int64 // ns, by hash: two keys share a bucket with a probability of 2⁻⁶⁴
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

// key returns the hash of a key in a scope.
func (l *local) key(scope scope, key string) uint64 {
	return maphash.String(l.seed, key) + uint64(scope)*0x9e3779b97f4a7c15
}

// networkKey is key for an address, without formatting it.
func (l *local) networkKey(scope scope, a netip.Addr) uint64 {
	b := a.As16()
	return maphash.Bytes(l.seed, b[:]) + uint64(scope)*0x9e3779b97f4a7c15
}

// take counts a request and returns 0, or how long to wait for the next one.
func (l *local) take(sum uint64, r Rule, now time.Time) time.Duration { return l.count(sum, r, 0, now) }

// count does the same as gcra.lua. With maxExcess > 0 it is a meter: it refuses nothing and returns
// the excess.
func (l *local) count(sum uint64, r Rule, maxExcess time.Duration, now time.Time) time.Duration {
	s := &l.shards[sum%shards]
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	tat, known := s.tat[sum]
	if !known && len(s.tat) >= l.limit {
		s.evict(at)
	}
	next := max(tat, at) + int64(r.interval())
	excess := next - at - int64(r.tolerance())
	if excess > 0 && maxExcess == 0 {
		return time.Duration(excess)
	}
	if over := excess - int64(maxExcess); over > 0 {
		excess, next = excess-over, next-over
	}
	s.tat[sum] = next
	return time.Duration(max(0, excess))
}

// evict drops the keys whose allowance is full, and arbitrary keys if that is not enough to bound the
// memory.
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
