package fairdraw

import (
	"bytes"
	"container/heap"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math/bits"
	"slices"

	"github.com/google/uuid"
)

// rankedEntry is an entry with the HMAC by which it is ranked. Equal HMACs, which never occur in
// practice, are ordered by id.
type rankedEntry struct {
	mac Hash
	id  uuid.UUID
}

func compareRanked(a, b *rankedEntry) int {
	if c := bytes.Compare(a.mac[:], b.mac[:]); c != 0 {
		return c
	}
	return bytes.Compare(a.id[:], b.id[:])
}

// ranker computes the HMAC by which a request id is ranked: HMAC-SHA256(key, id as 16 bytes).
type ranker struct {
	mac hash.Hash
	in  [entrySize]byte
	out Hash
}

func newRanker(key Hash) *ranker { return &ranker{mac: hmac.New(sha256.New, key[:])} }

// computeMAC stores the HMAC of an id in r.out.
func (r *ranker) computeMAC(id []byte) {
	copy(r.in[:], id)
	r.mac.Reset()
	r.mac.Write(r.in[:])
	r.mac.Sum(r.out[:0])
}

func (r *ranker) rank(id uuid.UUID) rankedEntry {
	r.computeMAC(id[:])
	return rankedEntry{mac: r.out, id: id}
}

// Winners returns the n entries with the smallest HMAC-SHA256(key, id), the smallest first; all
// entries when there are fewer. It needs memory for the winners only.
func Winners(key Hash, entries Entries, n int) []uuid.UUID {
	n = min(max(n, 0), entries.Len())
	best := make(worstFirst, 0, n)
	r := newRanker(key)
	for i := range entries.Len() {
		id := entries[i*entrySize : (i+1)*entrySize]
		r.computeMAC(id)
		best.keepIfBest(n, &r.out, id)
	}
	return best.sorted()
}

// Order returns the indexes of the entries, sorted by HMAC-SHA256(key, id): the order of a shuffle,
// or the ranks of a draw. It needs 12 bytes per entry.
func Order(key Hash, entries Entries) []uint32 {
	return orderByMAC(key, entries, bits.Len(uint(entries.Len())))
}

// orderByMAC sorts 64-bit numbers that consist of an entry's index, in indexBits low bits, and the
// first bits of its HMAC. Only entries equal in these bits are compared by the whole HMAC.
func orderByMAC(key Hash, entries Entries, indexBits int) []uint32 {
	mask := uint64(1)<<indexBits - 1
	sortKeys := make([]uint64, entries.Len())
	r := newRanker(key)
	for i := range sortKeys {
		r.computeMAC(entries[i*entrySize : (i+1)*entrySize])
		sortKeys[i] = binary.BigEndian.Uint64(r.out[:])&^mask | uint64(i) //nolint:gosec // positive
	}
	slices.Sort(sortKeys)
	at := func(sortKey uint64) int { return int(sortKey & mask) } //nolint:gosec // a position
	for from := 0; from < len(sortKeys); {
		to := from + 1
		for to < len(sortKeys) && sortKeys[to]&^mask == sortKeys[from]&^mask {
			to++
		}
		if to-from > 1 { // equal first bits: the whole HMACs decide
			slices.SortFunc(sortKeys[from:to], func(a, b uint64) int {
				x, y := r.rank(entries.At(at(a))), r.rank(entries.At(at(b)))
				return compareRanked(&x, &y)
			})
		}
		from = to
	}
	order := make([]uint32, len(sortKeys))
	for i, sortKey := range sortKeys {
		order[i] = uint32(at(sortKey)) //nolint:gosec // the entries are in memory
	}
	return order
}

// worstFirst is a heap of the entries with the smallest HMACs so far, the largest of them on top.
type worstFirst []rankedEntry

// keepIfBest adds an entry if its HMAC is among the n smallest so far; in long lists that is rare.
func (w *worstFirst) keepIfBest(n int, mac *Hash, id []byte) {
	switch {
	case len(*w) < n:
		heap.Push(w, rankedEntry{mac: *mac, id: uuid.UUID(id)})
	case n > 0 && bytes.Compare(mac[:], (*w)[0].mac[:]) <= 0:
		if x := (rankedEntry{mac: *mac, id: uuid.UUID(id)}); compareRanked(&x, &(*w)[0]) < 0 {
			(*w)[0] = x
			heap.Fix(w, 0)
		}
	}
}

// sorted returns the ids in the order of their HMACs. It reorders w, which is no heap afterwards.
func (w worstFirst) sorted() []uuid.UUID {
	slices.SortFunc(w, func(a, b rankedEntry) int { return compareRanked(&a, &b) })
	winners := make([]uuid.UUID, len(w))
	for i := range w {
		winners[i] = w[i].id
	}
	return winners
}

func (w worstFirst) Len() int           { return len(w) }
func (w worstFirst) Less(i, j int) bool { return compareRanked(&w[j], &w[i]) < 0 }
func (w worstFirst) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *worstFirst) Push(x any)        { *w = append(*w, x.(rankedEntry)) } //nolint:forcetypeassert // heap of entries
func (w *worstFirst) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
