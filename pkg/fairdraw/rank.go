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

// ranked is an entry with its HMAC. Equal HMACs, which never occur in practice, are ordered by id.
type ranked struct {
	mac Hash
	id  uuid.UUID
}

func compare(a, b *ranked) int {
	if c := bytes.Compare(a.mac[:], b.mac[:]); c != 0 {
		return c
	}
	return bytes.Compare(a.id[:], b.id[:])
}

// ranker computes HMAC-SHA256(key, requestId as 16 bytes).
type ranker struct {
	mac hash.Hash
	in  [entrySize]byte
	out Hash
}

func newRanker(key Hash) *ranker { return &ranker{mac: hmac.New(sha256.New, key[:])} }

// computeMAC leaves the HMAC of an id in out.
func (r *ranker) computeMAC(id []byte) {
	copy(r.in[:], id)
	r.mac.Reset()
	r.mac.Write(r.in[:])
	r.mac.Sum(r.out[:0])
}

func (r *ranker) rank(id uuid.UUID) ranked {
	r.computeMAC(id[:])
	return ranked{mac: r.out, id: id}
}

// Winners are the n entries with the smallest HMAC-SHA256(key, id), the smallest first; all entries
// when there are fewer. It needs memory for the winners only.
func Winners(key Hash, entries Entries, n int) []uuid.UUID {
	n = min(max(n, 0), entries.Len())
	best := make(worstFirst, 0, n)
	r := newRanker(key)
	for i := range entries.Len() {
		id := entries[i*entrySize : (i+1)*entrySize]
		r.computeMAC(id)
		best.keep(n, &r.out, id)
	}
	return best.sorted()
}

// Order returns the positions in entries of all of them, in ascending order of HMAC-SHA256(key,
// id): that of a shuffle, and of the ranks of a draw. It needs 12 bytes per entry.
func Order(key Hash, entries Entries) []uint32 {
	return orderBy(key, entries, bits.Len(uint(entries.Len())))
}

// orderBy sorts numbers of the first bits of an HMAC, which decide nearly always, and the position
// in so many low bits.
func orderBy(key Hash, entries Entries, low int) []uint32 {
	mask := uint64(1)<<low - 1
	places := make([]uint64, entries.Len())
	r := newRanker(key)
	for i := range places {
		r.computeMAC(entries[i*entrySize : (i+1)*entrySize])
		places[i] = binary.BigEndian.Uint64(r.out[:])&^mask | uint64(i) //nolint:gosec // positive
	}
	slices.Sort(places)
	at := func(place uint64) int { return int(place & mask) } //nolint:gosec // a position
	for from := 0; from < len(places); {
		to := from + 1
		for to < len(places) && places[to]&^mask == places[from]&^mask {
			to++
		}
		if to-from > 1 { // the rest of the HMACs decides
			slices.SortFunc(places[from:to], func(a, b uint64) int {
				x, y := r.rank(entries.At(at(a))), r.rank(entries.At(at(b)))
				return compare(&x, &y)
			})
		}
		from = to
	}
	order := make([]uint32, len(places))
	for i, place := range places {
		order[i] = uint32(at(place)) //nolint:gosec // the entries are in memory
	}
	return order
}

// worstFirst is a heap of the best entries so far, with the worst of them on top.
type worstFirst []ranked

// keep adds an entry if it is among the n best so far. Nearly every entry of many is not.
func (w *worstFirst) keep(n int, mac *Hash, id []byte) {
	switch {
	case len(*w) < n:
		heap.Push(w, ranked{mac: *mac, id: uuid.UUID(id)})
	case n > 0 && bytes.Compare(mac[:], (*w)[0].mac[:]) <= 0:
		if x := (ranked{mac: *mac, id: uuid.UUID(id)}); compare(&x, &(*w)[0]) < 0 {
			(*w)[0] = x
			heap.Fix(w, 0)
		}
	}
}

// sorted returns the entries, the best first. The heap is none afterwards.
func (w worstFirst) sorted() []uuid.UUID {
	slices.SortFunc(w, func(a, b ranked) int { return compare(&a, &b) })
	winners := make([]uuid.UUID, len(w))
	for i := range w {
		winners[i] = w[i].id
	}
	return winners
}

func (w worstFirst) Len() int           { return len(w) }
func (w worstFirst) Less(i, j int) bool { return compare(&w[j], &w[i]) < 0 }
func (w worstFirst) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *worstFirst) Push(x any)        { *w = append(*w, x.(ranked)) } //nolint:forcetypeassert // heap of ranked
func (w *worstFirst) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
