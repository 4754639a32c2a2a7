package fairdraw

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sort"

	"github.com/google/uuid"
)

// ChunkSize is the number of entries in a chunk (320 kB); only the last chunk may have fewer. Lists
// of entries are stored, served and verified in chunks, so that this needs little memory.
const ChunkSize = 20_000

// ErrOtherEntries means that a chunk differs from the one that was added to the Index.
var ErrOtherEntries = errors.New("fairdraw: other entries than those of the list")

// ChunkCount returns the number of chunks of a list with this number of entries.
func ChunkCount(entries int64) int { return int((entries + ChunkSize - 1) / ChunkSize) }

// Chunk returns chunk n, counted from 0. It is empty after the last chunk.
func (e Entries) Chunk(n int) Entries {
	from := min(n*ChunkSize*entrySize, len(e))
	return e[from:min(from+ChunkSize*entrySize, len(e))]
}

// Index holds the hashes that Prove needs, besides the chunk of an entry, to prove that the entry
// is in a list: 130 kB for a million entries. It is safe for concurrent use after the last Add.
type Index struct {
	count  int
	last   uuid.UUID
	chunks []indexedChunk
	blocks []Hash // the Merkle roots of complete blocks of blockSize entries
	open   Tree   // the tree of the entries after these blocks
}

type indexedChunk struct {
	first uuid.UUID
	sum   Hash
}

// blockSize is the number of leaves of a subtree whose root an Index keeps. A proof computes the
// hashes of one subtree again, which takes 0.1 ms.
const blockSize = 256

// Add adds the next chunk of the list. It fails with ErrUnsorted for entries that are out of order.
func (x *Index) Add(chunk Entries) error {
	if _, err := ParseEntries(chunk); err != nil {
		return err
	}
	n := chunk.Len()
	if n == 0 || n > ChunkSize || x.count%ChunkSize != 0 {
		return fmt.Errorf("%w: a chunk of %d behind %d entries", ErrUnsorted, n, x.count)
	}
	if first := chunk.At(0); x.count > 0 && bytes.Compare(x.last[:], first[:]) >= 0 {
		return fmt.Errorf("%w: entry %d is twice or out of order", ErrUnsorted, x.count)
	}
	x.addUnchecked(chunk)
	return nil
}

func (x *Index) addUnchecked(chunk Entries) {
	n := chunk.Len()
	x.chunks = append(x.chunks, indexedChunk{chunk.At(0), sha256.Sum256(chunk)})
	for i := range n {
		x.open.Add(EntryLeaf(chunk.At(i)))
		if x.open.Count() == blockSize {
			x.blocks = append(x.blocks, x.open.Root())
			x.open = Tree{}
		}
	}
	x.count, x.last = x.count+n, chunk.At(n-1)
}

// Check fails with ErrOtherEntries unless the chunk is the n-th one that was added.
func (x *Index) Check(n int, chunk Entries) error {
	if n >= len(x.chunks) || x.chunks[n].sum != sha256.Sum256(chunk) {
		return fmt.Errorf("%w: chunk %d", ErrOtherEntries, n)
	}
	return nil
}

func (x *Index) Len() int { return x.count }

// Size returns how much memory the Index takes, in bytes.
func (x *Index) Size() int64 {
	return int64(sha256.Size*len(x.blocks) + (entrySize+sha256.Size)*len(x.chunks))
}

// blockRoots returns a copy of the roots of all blocks, including the last, incomplete one.
func (x *Index) blockRoots() []Hash {
	roots := append(make([]Hash, 0, len(x.blocks)+1), x.blocks...)
	if x.open.Count() > 0 {
		roots = append(roots, x.open.Root())
	}
	return roots
}

func (x *Index) Root() Hash {
	var tree Tree
	for _, b := range x.blockRoots() {
		tree.Add(b)
	}
	return tree.Root()
}

// Find returns the chunk that contains an id, the chunk's number n, and the id's index at in it. ok
// is false if the id is not among the entries. read returns the n-th chunk.
func (x *Index) Find(id uuid.UUID, read func(n int) (Entries, error)) (chunk Entries, n, at int, ok bool, err error) {
	n = sort.Search(len(x.chunks), func(i int) bool { return bytes.Compare(x.chunks[i].first[:], id[:]) > 0 }) - 1
	if n < 0 {
		return nil, 0, 0, false, nil
	}
	if chunk, err = read(n); err != nil {
		return nil, 0, 0, false, err
	}
	at, ok = chunk.Find(id)
	return chunk, n, at, ok, nil
}

// Prove makes the proof that an id is among the entries; ok is false if not. read returns the n-th
// chunk.
func (x *Index) Prove(id uuid.UUID, read func(n int) (Entries, error)) (proof Proof, ok bool, err error) {
	chunk, n, at, found, err := x.Find(id, read)
	if err != nil || !found {
		return Proof{}, false, err
	}
	index := n*ChunkSize + at
	block := index / blockSize
	from, to := block*blockSize, min((block+1)*blockSize, x.count)
	leaves := make([]Hash, 0, to-from)
	for i := from; i < to; i++ {
		if i/ChunkSize != n { // a block may extend into the next chunk
			n = i / ChunkSize
			if chunk, err = read(n); err != nil {
				return Proof{}, false, err
			}
		}
		leaves = append(leaves, EntryLeaf(chunk.At(i%ChunkSize)))
	}
	// All blocks but the last are complete subtrees, so their roots are the leaves of the upper tree.
	path := appendPath(nil, leaves, index-from)
	path = appendPath(path, x.blockRoots(), block)
	return Proof{Index: index, Count: x.count, Path: path}, true, nil
}
