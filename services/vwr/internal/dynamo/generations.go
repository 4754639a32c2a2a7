package dynamo

import "github.com/google/uuid"

// recentIDs is a set of the ids added last: at least max, at most twice as many. It has two maps.
// When young is full, it becomes old, and the previous old one is dropped.
type recentIDs struct {
	max        int
	young, old map[uuid.UUID]bool
}

func newRecentIDs(limit int) recentIDs {
	return recentIDs{max: limit, young: make(map[uuid.UUID]bool)}
}

func (g *recentIDs) add(id uuid.UUID) (isNew bool) {
	if g.young[id] || g.old[id] {
		return false
	}
	if len(g.young) >= g.max {
		g.young, g.old = make(map[uuid.UUID]bool), g.young
	}
	g.young[id] = true
	return true
}

func (g *recentIDs) remove(id uuid.UUID) {
	delete(g.young, id)
	delete(g.old, id)
}
