package fairdraw

import (
	"crypto/sha256"

	"github.com/google/uuid"
)

// Prefixes of the hashed bytes (RFC 9162 §2.1.1), so that no leaf has the hash of a node.
const (
	leafPrefix = 0
	nodePrefix = 1
)

// Tree computes the root of a Merkle tree (RFC 9162 §2.1) whose leaves are added one by one. It
// keeps one hash per level. The zero value is an empty tree.
type Tree struct {
	count int
	stack []Hash // the roots of complete subtrees, the largest first; their sizes are the bits of count
}

func (t *Tree) Add(leaf Hash) {
	for n := t.count; n&1 == 1; n >>= 1 {
		last := len(t.stack) - 1
		leaf = nodeHash(&t.stack[last], &leaf)
		t.stack = t.stack[:last]
	}
	t.stack = append(t.stack, leaf)
	t.count++
}

func (t *Tree) Count() int { return t.count }

// Root returns the root over the leaves so far; for an empty tree it is SHA-256 of no bytes.
func (t *Tree) Root() Hash {
	if t.count == 0 {
		return sha256.Sum256(nil)
	}
	root := t.stack[len(t.stack)-1]
	for i := len(t.stack) - 2; i >= 0; i-- {
		root = nodeHash(&t.stack[i], &root)
	}
	return root
}

// EntryLeaf returns the leaf hash of an entry.
func EntryLeaf(id uuid.UUID) Hash {
	var b [1 + len(id)]byte
	b[0] = leafPrefix
	copy(b[1:], id[:])
	return sha256.Sum256(b[:])
}

func leafHash(data []byte) Hash {
	return sha256.Sum256(append([]byte{leafPrefix}, data...))
}

func nodeHash(left, right *Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = nodePrefix
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// Proof shows that an entry is in a Merkle tree: it has the position of the entry's leaf and the
// sibling hashes on the path from the leaf to the root (RFC 9162 §2.1.3).
type Proof struct {
	Index int    `json:"index"` // from 0
	Count int    `json:"count"` // leaves of the tree
	Path  []Hash `json:"path"`  // from the leaf up
}

// Verify reports whether the proof leads from the entry to the root. The caller must check that
// Count is the count in the signed statement.
func (p Proof) Verify(id uuid.UUID, root Hash) bool {
	if p.Index < 0 || p.Index >= p.Count {
		return false
	}
	hash, index, last := EntryLeaf(id), p.Index, p.Count-1
	for i := range p.Path {
		if last == 0 {
			return false
		}
		if index&1 == 1 || index == last {
			hash = nodeHash(&p.Path[i], &hash)
			for index&1 == 0 && index != 0 {
				index, last = index>>1, last>>1
			}
		} else {
			hash = nodeHash(&hash, &p.Path[i])
		}
		index, last = index>>1, last>>1
	}
	return last == 0 && hash == root
}

// Prover makes Merkle proofs for sorted entries that are in memory. It is safe for concurrent use.
type Prover struct {
	index   Index
	entries Entries
}

// NewProver hashes all entries once.
func NewProver(entries Entries) *Prover {
	p := &Prover{entries: entries}
	for n := range ChunkCount(int64(entries.Len())) {
		p.index.addUnchecked(entries.Chunk(n))
	}
	return p
}

func (p *Prover) Root() Hash { return p.index.Root() }

// Prove makes the proof that an id is among the entries; ok is false if it is not.
func (p *Prover) Prove(id uuid.UUID) (proof Proof, ok bool) {
	proof, ok, _ = p.index.Prove(id, func(n int) (Entries, error) { return p.entries.Chunk(n), nil }) // reading from memory never fails
	return proof, ok
}

// appendPath appends the sibling hashes on the path from level[i] to the root. It overwrites level.
func appendPath(path, level []Hash, i int) []Hash {
	for len(level) > 1 {
		if sibling := i ^ 1; sibling < len(level) {
			path = append(path, level[sibling])
		}
		next := level[:0]
		for j := 0; j < len(level); j += 2 {
			if j+1 < len(level) {
				next = append(next, nodeHash(&level[j], &level[j+1]))
			} else {
				next = append(next, level[j])
			}
		}
		level, i = next, i/2
	}
	return path
}
