package promotion

import (
	"encoding/binary"
	"fmt"
)

// lotteryGroups spread a lottery over groups that are settled in parallel.
const lotteryGroups = 64

// LotteryGroup is the group of a lottery request, two hexadecimal digits.
func LotteryGroup(id string) string { return groupName(hash(id) % lotteryGroups) }

func groupName(i uint32) string { return fmt.Sprintf("%02x", i) }

// LotteryGroups are the names of all groups.
func LotteryGroups() []string {
	out := make([]string, lotteryGroups)
	for i := range out {
		out[i] = groupName(uint32(i)) //nolint:gosec // below 64
	}
	return out
}

// EntryCounter counts the entries of a group. There is none before the first entry.
type EntryCounter struct {
	N int64
	// ClosedAt is when the draw ended the taking of entries; 0: it is open.
	ClosedAt int64
	// SentAt is when the queue got the latest message of the group that was settled, by its clock:
	// messages of the group sent before it have been settled, or are lost.
	SentAt int64
}

// Entry is a lottery request that takes part in the draw.
type Entry struct {
	EventID, RequestID string
	EnteredAt, EndsAt  int64
}

// Exclusion is a lottery request that ended without an entry; a redrive deletes it. From phase
// CLOSED on exclusions are neither written nor deleted, so that they stay as they were signed; only
// one that cannot be read is mended before the statement (table.Store.MendExclusion).
type Exclusion struct {
	EventID, RequestID string
	Reason             ResultCode
	At, EndsAt         int64
}

// Ranks are the ranks of the entries of a chunk (fairdraw.ChunkSize), 4 bytes each.
type Ranks []byte

// NewRanks encodes ranks, which begin at 1.
func NewRanks(ranks []uint32) Ranks {
	out := make(Ranks, 0, 4*len(ranks))
	for _, rank := range ranks {
		out = binary.BigEndian.AppendUint32(out, rank)
	}
	return out
}

// Of is the rank of the i-th entry of the chunk, 0 if that is not known.
func (r Ranks) Of(i int) int {
	if len(r) < 4*(i+1) {
		return 0
	}
	return int(binary.BigEndian.Uint32(r[4*i:]))
}
