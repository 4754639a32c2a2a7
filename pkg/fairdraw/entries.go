package fairdraw

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/google/uuid"
)

const entrySize = len(uuid.UUID{})

// ErrUnsorted means that entries are not in strictly ascending order of their bytes, or not a whole
// number of 16-byte ids.
var ErrUnsorted = errors.New("fairdraw: entries are not sorted")

// Entries is the published file of a draw's entries: request ids of 16 bytes each, in strictly
// ascending order.
type Entries []byte

// ParseEntries checks that b is a list of entries. It fails with ErrUnsorted.
func ParseEntries(b []byte) (Entries, error) {
	if len(b)%entrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not a multiple of %d", ErrUnsorted, len(b), entrySize)
	}
	for i := entrySize; i < len(b); i += entrySize {
		if bytes.Compare(b[i-entrySize:i], b[i:i+entrySize]) >= 0 {
			return nil, fmt.Errorf("%w: entry %d is twice or out of order", ErrUnsorted, i/entrySize)
		}
	}
	return b, nil
}

func (e Entries) Len() int           { return len(e) / entrySize }
func (e Entries) At(i int) uuid.UUID { return uuid.UUID(e[i*entrySize:]) }

func (e Entries) Find(id uuid.UUID) (i int, found bool) {
	return sort.Find(e.Len(), func(i int) int { return bytes.Compare(id[:], e[i*entrySize:(i+1)*entrySize]) })
}

func (e Entries) Root() Hash {
	var tree Tree
	for i := range e.Len() {
		tree.Add(EntryLeaf(e.At(i)))
	}
	return tree.Root()
}

// Pages is a function that returns the next page of a sorted partition of the entries at each call,
// such as a page of a query. An empty page is the end. A page is not used after the next call.
type Pages func() (Entries, error)

// MergeAll merges sorted lists that are in memory into one. It fails with ErrUnsorted when the result
// is not strictly ascending.
func MergeAll(lists []Entries) (Entries, error) {
	size := 0
	partitions := make([]Pages, len(lists))
	for i, list := range lists {
		size += len(list)
		partitions[i] = func() (Entries, error) {
			page := list
			list = nil // the next page is the end
			return page, nil
		}
	}
	all := make(Entries, 0, size)
	err := Merge(partitions, func(id uuid.UUID) error {
		all = append(all, id[:]...)
		return nil
	})
	return all, err
}

// Merge merges sorted partitions into one sorted sequence and calls each for every entry. It keeps
// one page per partition in memory. It fails with the error of a partition or of each, and with
// ErrUnsorted when the merged sequence is not strictly ascending.
func Merge(partitions []Pages, each func(id uuid.UUID) error) error {
	var h cursors
	for _, next := range partitions {
		c := cursor{next: next}
		more, err := c.advance()
		if err != nil {
			return err
		}
		if more {
			h = append(h, c)
		}
	}
	for i := len(h) / 2; i >= 0; i-- {
		h.siftDown(i)
	}
	var last cursor
	for first := true; len(h) > 0; first = false {
		c := &h[0]
		id := uuid.UUID(c.page)
		if !first && !last.before(c) {
			return fmt.Errorf("%w: %s is twice or out of order", ErrUnsorted, id)
		}
		if err := each(id); err != nil {
			return err
		}
		last.high, last.low = c.high, c.low
		more, err := c.advance()
		if err != nil {
			return err
		}
		if !more {
			h[0] = h[len(h)-1]
			h = h[:len(h)-1]
		}
		h.siftDown(0)
	}
	return nil
}

// cursor is a position in a partition. page is the rest of the current page. high and low are the
// current entry as two numbers, which compare faster.
type cursor struct {
	high, low uint64
	page      Entries
	next      Pages
}

// advance moves to the next entry; it reports false at the end of the partition.
func (c *cursor) advance() (bool, error) {
	if len(c.page) > entrySize {
		c.page = c.page[entrySize:]
	} else {
		var err error
		if c.page, err = c.next(); err != nil {
			return false, err
		}
		if len(c.page)%entrySize != 0 {
			return false, fmt.Errorf("%w: a page has %d bytes", ErrUnsorted, len(c.page))
		}
		if len(c.page) == 0 {
			return false, nil
		}
	}
	c.high, c.low = binary.BigEndian.Uint64(c.page), binary.BigEndian.Uint64(c.page[8:])
	return true, nil
}

func (c *cursor) before(other *cursor) bool {
	return c.high < other.high || (c.high == other.high && c.low < other.low)
}

// cursors is a binary heap of the partitions, with the smallest current entry on top. The top is
// replaced once per entry, which is much slower with container/heap.
type cursors []cursor

// siftDown moves the cursor at index i down the heap until no child is smaller.
func (h cursors) siftDown(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right].before(&h[child]) {
			child = right
		}
		if !h[child].before(&h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
