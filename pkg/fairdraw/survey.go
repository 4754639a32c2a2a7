package fairdraw

import (
	"bytes"

	"github.com/google/uuid"
)

// entrySurvey is the result of one pass over the entries: their Merkle root, which of the wanted
// requests are among them, and, once there is a result, the winners. It keeps all entries in memory
// only for a shuffle, whose order needs them.
type entrySurvey struct {
	tree   Tree
	last   uuid.UUID
	wanted map[uuid.UUID]bool // request id → whether it is an entry

	ranker   *ranker // nil: there is no result
	winners  int     // number of winners of a draw
	best     worstFirst
	ranks    []receiptRank
	shuffled bool
	all      Entries
}

// receiptRank is the rank of a receipt's request: one more than the number of entries so far that
// rank before the request.
type receiptRank struct {
	own  rankedEntry
	rank int
}

// newSurvey prepares the pass over the entries. The pass ranks the entries by the published seed
// and value before these are verified; they are verified before the result is checked.
func (v *verification) newSurvey() *entrySurvey {
	s := &entrySurvey{wanted: map[uuid.UUID]bool{}}
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

// publishedKey computes the key by which the entries are ranked from the published values; ok is
// false before the result.
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

// addEntries processes the next part of the file of entries.
func (s *entrySurvey) addEntries(chunk []byte) *Fault {
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
		s.rankEntry(id)
	}
	if len(chunk) > 0 {
		return fault(EntriesUnsorted, "%v: entry %d is not whole", ErrUnsorted, s.tree.Count())
	}
	return nil
}

func (s *entrySurvey) rankEntry(id uuid.UUID) {
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
	x := rankedEntry{mac: s.ranker.out, id: id}
	for i := range s.ranks {
		if r := &s.ranks[i]; compareRanked(&x, &r.own) < 0 {
			r.rank++
		}
	}
	if !s.shuffled {
		s.best.keepIfBest(s.winners, &x.mac, id[:])
	}
}
