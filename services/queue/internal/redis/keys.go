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
	"threshold", "admitted", "since",
}

// key is one key of a line.
func key(eventID, name string) string { return "{" + eventID + "}:" + name }

// passKey holds who joined with which position of a tier-1 round.
func passKey(eventID string, round int64) string {
	return key(eventID, "t1:"+strconv.FormatInt(round, 10))
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
	index map[int64]int
}

// of is the number (from 1) of the key of a position's round; 0 without a position.
func (p *passes) of(eventID string, t line.Tier1) int {
	if t.Position <= 0 || t.Round <= 0 {
		return 0
	}
	n, ok := p.index[t.Round]
	if !ok {
		p.keys = append(p.keys, passKey(eventID, t.Round))
		n = len(p.keys)
		if p.index == nil {
			p.index = make(map[int64]int, 1)
		}
		p.index[t.Round] = n
	}
	return n
}
