package redis

import (
	"strconv"

	"urr.guru/services/queue/internal/line"
)

// registryKey lists the events that some replica has had contact for. It is on another slot than their lines.
const registryKey = "queue:active-events"

// Names of a line's keys, in the order in which every script gets them. All of a line's keys share the hash tag {eventId}: they are on
// one slot of a cluster, so that one script may use them together.
var lineKeys = [...]string{ //nolint:gochecknoglobals // a constant table
	"line", "queue", "seen", "parked", "parked-seen", "active", "active-seen", "unclaimed", "slot", "old", "restored", "blocked",
	"threshold", "admitted", "since", "spent", "late", "holds",
}

// key is one key of a line.
func key(eventID, name string) string { return "{" + eventID + "}:" + name }

// passPage is how many positions of a tier-1 round share a hash: position 4711 is field 11 of page 47. Redis packs hashes that are small
// (128 fields and values of 64 bytes are within every version's limits), and a hundred users with ids of 36 characters fill one of its
// allocator's sizes: a position costs 43 bytes instead of the 96 of one large hash (BenchmarkMemory).
const passPage = 100

// passKey holds who joined with the positions of one page of a tier-1 round.
func passKey(eventID string, round, page int64) string {
	return key(eventID, "t1:"+strconv.FormatInt(round, 10)+":"+strconv.FormatInt(page, 10))
}

// keysOf are those that every script of the line gets.
func keysOf(eventID string) []string {
	keys := make([]string, len(lineKeys), len(lineKeys)+1)
	for i, name := range lineKeys {
		keys[i] = key(eventID, name)
	}
	return keys
}

// passes numbers the tier-1 keys among claims, since a script must be given every key by name.
type passes struct {
	keys  []string
	index map[[2]int64]int // by round and page
}

// of is the number (from 1) of a position's key; 0 without a position.
func (p *passes) of(eventID string, t line.Tier1) int {
	if t.Position <= 0 || t.Round <= 0 {
		return 0
	}
	page := t.Position / passPage
	n, ok := p.index[[2]int64{t.Round, page}]
	if !ok {
		p.keys = append(p.keys, passKey(eventID, t.Round, page))
		n = len(p.keys)
		if p.index == nil {
			p.index = make(map[[2]int64]int, 1)
		}
		p.index[[2]int64{t.Round, page}] = n
	}
	return n
}
