package reconcile

// idSet is a set of allocation ids: a bit for each id, in blocks for the ranges that occur. A
// million consecutive ids take 128 KiB.
type idSet map[int64]*[blockWords]uint64

const (
	wordBits   = 64
	blockWords = 1024
	blockBits  = wordBits * blockWords
)

// add reports whether the id was not in the set.
func (s idSet) add(id int64) bool {
	block := s[id/blockBits]
	if block == nil {
		block = new([blockWords]uint64)
		s[id/blockBits] = block
	}
	word, bit := &block[id%blockBits/wordBits], uint64(1)<<(id%wordBits)
	added := *word&bit == 0
	*word |= bit
	return added
}

func (s idSet) has(id int64) bool {
	block := s[id/blockBits]
	return block != nil && block[id%blockBits/wordBits]&(1<<(id%wordBits)) != 0
}
