package fairdraw

import (
	"bytes"

	"github.com/google/uuid"
)

// survey is what one pass over the entries finds out: their root, which of some requests are among
// them, and, if there is a result, who wins by its key. It keeps the entries of a shuffle only,
// whose order needs all of them.
type survey struct {
	tree   Tree
	last   uuid.UUID
	wanted map[uuid.UUID]bool // whether a request is an entry

	ranker   *ranker // nil: there is no result
	winners  int     // of a draw
	best     worstFirst
	ranks    []receiptRank
	shuffled bool
	all      Entries
}

// receiptRank counts the entries before the one of a receipt.
type receiptRank struct {
	own  ranked
	rank int
}

// newSurvey prepares the pass. The key is that of the published seed and value: if these are not
// genuine, a check before the one of the result says so.
func (v *verification) newSurvey() *survey {
	s := &survey{wanted: map[uuid.UUID]bool{}}
	for _, e := range v.doc.Excluded {
		if id, ok := parseID(e.RequestID); ok {
			s.wanted[id] = false
		}
	}
	for i := range v.report.Receipts {
		s.wanted[v.report.Receipts[i].RequestID] = false
	}
	key, ok := v.publishedKey()
	if !ok {
		return s
	}
	v.key, s.ranker = key, newRanker(key)
	s.winners, s.shuffled = max(0, v.report.Commitment.Winners), v.report.Commitment.Algorithm == AlgorithmShuffle
	for i := range v.report.Receipts {
		s.ranks = append(s.ranks, receiptRank{own: s.ranker.rank(v.report.Receipts[i].RequestID), rank: 1})
	}
	return s
}

// publishedKey is the key by which the entries are ranked; ok is false before the result.
func (v *verification) publishedKey() (key Hash, ok bool) {
	seed, err := ParseHash(v.doc.Seed)
	if err != nil || (v.report.Commitment.Beacon == nil) != (v.doc.Beacon == nil) {
		return key, false
	}
	var value []byte
	if v.doc.Beacon != nil {
		sum := signatureHash(v.doc.Beacon.Signature)
		value = sum[:]
	}
	return Key(seed, v.report.CommitmentHash, v.statement.Root, value), true
}

// add takes the next entries.
func (s *survey) add(chunk []byte) *Fault {
	for ; len(chunk) >= entrySize; chunk = chunk[entrySize:] {
		id := uuid.UUID(chunk)
		if s.tree.Count() > 0 && bytes.Compare(s.last[:], id[:]) >= 0 {
			return fault(EntriesUnsorted, "%v: entry %d is twice or out of order", ErrUnsorted, s.tree.Count())
		}
		s.last = id
		s.tree.Add(EntryLeaf(id))
		if _, ok := s.wanted[id]; ok {
			s.wanted[id] = true
		}
		s.place(id)
	}
	if len(chunk) > 0 {
		return fault(EntriesUnsorted, "%v: entry %d is not whole", ErrUnsorted, s.tree.Count())
	}
	return nil
}

func (s *survey) place(id uuid.UUID) {
	if s.ranker == nil {
		return
	}
	if s.shuffled {
		s.all = append(s.all, id[:]...)
	}
	if s.shuffled && len(s.ranks) == 0 {
		return
	}
	s.ranker.computeMAC(id[:])
	x := ranked{mac: s.ranker.out, id: id}
	for i := range s.ranks {
		if r := &s.ranks[i]; compare(&x, &r.own) < 0 {
			r.rank++
		}
	}
	if !s.shuffled {
		s.best.keep(s.winners, &x.mac, id[:])
	}
}
