package fairdraw

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sort"

	"github.com/google/uuid"
)

// ChunkSize is the number of entries in a chunk, 320 kB. A list is stored, served and verified in
// chunks, so that nobody needs memory for all of it. All but the last chunk are full.
const ChunkSize = 20_000

// ErrOtherEntries means that a chunk is not the one of the list that was indexed.
var ErrOtherEntries = errors.New("fairdraw: other entries than those of the list")

// Chunks is the number of chunks of a list.
func Chunks(entries int64) int { return int((entries + ChunkSize - 1) / ChunkSize) }

// Chunk is the n-th chunk, from 0; empty behind the last one.
func (e Entries) Chunk(n int) Entries {
	from := min(n*ChunkSize*entrySize, len(e))
	return e[from:min(from+ChunkSize*entrySize, len(e))]
}

// Index is what proofs need of a list besides the chunk with the entry: 130 kB for a million
// entries. It is safe for concurrent use once all chunks are added.
type Index struct {
	count  int
	last   uuid.UUID
	chunks []indexedChunk
	blocks []Hash // the roots of complete blocks
	open   Tree   // of the entries behind them
}

type indexedChunk struct {
	first uuid.UUID
	sum   Hash
}

// blockSize is the number of leaves of the subtrees whose roots an Index keeps. A proof hashes one
// subtree again, which takes 0.1 ms.
const blockSize = 256

// Add adds the next chunk. It fails with ErrUnsorted.
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
	x.add(chunk)
	return nil
}

func (x *Index) add(chunk Entries) {
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

// Check fails with ErrOtherEntries if a chunk is not the n-th one that was added.
func (x *Index) Check(n int, chunk Entries) error {
	if n >= len(x.chunks) || x.chunks[n].sum != sha256.Sum256(chunk) {
		return fmt.Errorf("%w: chunk %d", ErrOtherEntries, n)
	}
	return nil
}

func (x *Index) Len() int { return x.count }

// Size is its memory in bytes.
func (x *Index) Size() int64 {
	return int64(sha256.Size*len(x.blocks) + (entrySize+sha256.Size)*len(x.chunks))
}

// level is a copy of the roots of all blocks.
func (x *Index) level() []Hash {
	level := append(make([]Hash, 0, len(x.blocks)+1), x.blocks...)
	if x.open.Count() > 0 {
		level = append(level, x.open.Root())
	}
	return level
}

func (x *Index) Root() Hash {
	var tree Tree
	for _, b := range x.level() {
		tree.Add(b)
	}
	return tree.Root()
}

// Prove makes the proof of an entry by the chunks that read returns; ok is false for an id that is
// not among the entries.
func (x *Index) Prove(id uuid.UUID, read func(n int) (Entries, error)) (proof Proof, ok bool, err error) {
	n := sort.Search(len(x.chunks), func(i int) bool { return bytes.Compare(x.chunks[i].first[:], id[:]) > 0 }) - 1
	if n < 0 {
		return Proof{}, false, nil
	}
	chunk, err := read(n)
	if err != nil {
		return Proof{}, false, err
	}
	at, found := chunk.Find(id)
	if !found {
		return Proof{}, false, nil
	}
	index := n*ChunkSize + at
	block := index / blockSize
	from, to := block*blockSize, min((block+1)*blockSize, x.count)
	leaves := make([]Hash, 0, to-from)
	for i := from; i < to; i++ {
		if i/ChunkSize != n { // a block may be of two chunks
			n = i / ChunkSize
			if chunk, err = read(n); err != nil {
				return Proof{}, false, err
			}
		}
		leaves = append(leaves, EntryLeaf(chunk.At(i%ChunkSize)))
	}
	// Blocks are complete subtrees, except the last, so their roots form the tree above them.
	path := appendPath(nil, leaves, index-from)
	path = appendPath(path, x.level(), block)
	return Proof{Index: index, Count: x.count, Path: path}, true, nil
}
