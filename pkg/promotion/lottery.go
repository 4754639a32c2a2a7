package promotion

import (
	"encoding/binary"
	"fmt"
)

// lotteryGroups is the number of groups of a lottery's requests. Groups are processed in parallel.
const lotteryGroups = 64

// LotteryGroup returns the group of a lottery request: two hexadecimal digits.
func LotteryGroup(id string) string { return groupID(hash(id) % lotteryGroups) }

func groupID(i uint32) string { return fmt.Sprintf("%02x", i) }

// LotteryGroups returns all groups of a lottery.
func LotteryGroups() []string {
	out := make([]string, lotteryGroups)
	for i := range out {
		out[i] = groupID(uint32(i)) //nolint:gosec // below 64
	}
	return out
}

// EntryCounter counts the entries of one group of a lottery. It is stored from the first entry on.
type EntryCounter struct {
	N int64
	// ClosedAt is when the draw closed the group, which accepts no entries since then; 0: it is open.
	ClosedAt int64
	// SentAt is when the queue, by its clock, received the latest message of the group that workers
	// have processed. Every message sent before that time has been processed or is lost.
	SentAt int64
}

// Entry is a lottery request that takes part in the draw.
type Entry struct {
	EventID, RequestID string
	EnteredAt, EndsAt  int64
}

// Exclusion is a lottery request that ended without becoming an entry; if the request is redriven
// the exclusion is deleted. From phase CLOSED on exclusions are neither written nor deleted, since
// they will be signed. Only one that cannot be read is repaired before the statement
// (table.Store.MendExclusion).
type Exclusion struct {
	EventID, RequestID string
	Reason             ResultCode
	At, EndsAt         int64
}

// Ranks has the rank of each entry of a chunk (fairdraw.ChunkSize), in 4 bytes each.
type Ranks []byte

// NewRanks encodes ranks, which begin at 1.
func NewRanks(ranks []uint32) Ranks {
	out := make(Ranks, 0, 4*len(ranks))
	for _, rank := range ranks {
		out = binary.BigEndian.AppendUint32(out, rank)
	}
	return out
}

// Of returns the rank of the i-th entry of the chunk, 0 if it is not known.
func (r Ranks) Of(i int) (rank int) {
	if len(r) < 4*(i+1) {
		return 0
	}
	return int(binary.BigEndian.Uint32(r[4*i:]))
}
