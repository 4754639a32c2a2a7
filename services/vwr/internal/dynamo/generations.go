package dynamo

import "github.com/google/uuid"

// generations is a bounded set with two generations. When the young generation is full, it becomes
// the old one, and the previous old one is dropped.
type generations struct {
	max        int
	young, old map[uuid.UUID]bool
}

func newGenerations(limit int) generations {
	return generations{max: limit, young: make(map[uuid.UUID]bool)}
}

func (g *generations) add(id uuid.UUID) bool {
	if g.young[id] || g.old[id] {
		return false
	}
	if len(g.young) >= g.max {
		g.young, g.old = make(map[uuid.UUID]bool), g.young
	}
	g.young[id] = true
	return true
}

func (g *generations) remove(id uuid.UUID) {
	delete(g.young, id)
	delete(g.old, id)
}
