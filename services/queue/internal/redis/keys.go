package redis

import (
	"strconv"

	"urr.guru/services/queue/internal/line"
)

// registryKey is the Redis set of the events that had contact at any replica. In a cluster it may
// be on another node than the lines.
const registryKey = "queue:active-events"

// lineKeys are the names of a line's keys, in the order in which every script gets them. All have
// the hash tag {eventId} and so are in one slot of a cluster: one script may use them together.
var lineKeys = [...]string{ //nolint:gochecknoglobals // a constant table
	"line", "queue", "seen", "parked", "parked-seen", "active", "active-seen", "unclaimed", "slot", "old", "restored", "blocked",
	"threshold", "admitted", "since", "spent", "late", "holds", "turns", "turns-before",
	"entitled", "granted",
}

// lineKey returns one key of a line.
func lineKey(eventID, name string) string { return "{" + eventID + "}:" + name }

// passPage is how many positions of a tier-1 round share a Redis hash that maps each to its user:
// position 4711 is field 11 of page 47. Redis stores small hashes compactly (up to 128 fields and
// values of 64 bytes in every version), and a hundred ids of 36 characters fill one of its allocator's
// size classes. A position costs 43 bytes, compared with 96 in one large hash (BenchmarkMemory).
const passPage = 100

// passKey returns the key of a hash: one page of a tier-1 round's positions, with their users.
func passKey(eventID string, round, page int64) string {
	return lineKey(eventID, "t1:"+strconv.FormatInt(round, 10)+":"+strconv.FormatInt(page, 10))
}

// keysOf returns all keys of a line, which every script gets.
func keysOf(eventID string) []string {
	keys := make([]string, len(lineKeys), len(lineKeys)+1)
	for i, name := range lineKeys {
		keys[i] = lineKey(eventID, name)
	}
	return keys
}

// positionKeys collects the keys of the tier-1 positions in claims, since a script must get every
// key that it uses as an argument.
type positionKeys struct {
	keys  []string
	index map[[2]int64]int // by round and page
}

// indexOf returns the index (from 1) in keys of a position's key, which it adds if it is missing.
// Without a position it returns 0.
func (p *positionKeys) indexOf(eventID string, t line.Tier1) int {
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
