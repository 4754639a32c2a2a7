package redis

import (
	"strconv"

	"urr.guru/services/queue/internal/line"
)

// registryKey is the set of events with contact at any replica. Lines have other hash slots.
const registryKey = "queue:active-events"

// lineKeys are the names of a line's keys, in the order in which every script gets them. They share
// the hash tag {eventId}, hence one slot of a cluster, so that one script may use them together.
var lineKeys = [...]string{ //nolint:gochecknoglobals // a constant table
	"line", "queue", "seen", "parked", "parked-seen", "active", "active-seen", "unclaimed", "slot", "old", "restored", "blocked",
	"threshold", "admitted", "since", "spent", "late", "holds", "turns", "turns-before",
}

// lineKey returns one key of a line.
func lineKey(eventID, name string) string { return "{" + eventID + "}:" + name }

// passPage is how many positions of a tier-1 round share a hash: position 4711 is field 11 of page
// 47. Redis stores small hashes compactly (up to 128 fields and values of 64 bytes in every
// version), and a hundred users with ids of 36 characters fill one of its allocator's size classes.
// A position costs 43 bytes, compared with 96 in one large hash (BenchmarkMemory).
const passPage = 100

// passKey is the hash of users who joined with the positions of one page of a tier-1 round.
func passKey(eventID string, round, page int64) string {
	return lineKey(eventID, "t1:"+strconv.FormatInt(round, 10)+":"+strconv.FormatInt(page, 10))
}

// keysOf returns the keys that every script of the line gets.
func keysOf(eventID string) []string {
	keys := make([]string, len(lineKeys), len(lineKeys)+1)
	for i, name := range lineKeys {
		keys[i] = lineKey(eventID, name)
	}
	return keys
}

// positionKeys collects the tier-1 keys of claims: a script must get every key as an argument.
type positionKeys struct {
	keys  []string
	index map[[2]int64]int // by round and page
}

// indexOf returns the index (from 1) of a position's key; 0 without a position.
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
