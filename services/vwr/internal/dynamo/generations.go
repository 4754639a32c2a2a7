package dynamo

import "github.com/google/uuid"

// generations is a bounded set with two generations. When the young generation is full, it becomes
// the old one, and the previous old one is dropped.
type generations struct {
	max        int
	young, old map[uuid.UUID]struct{}
}

func newGenerations(limit int) generations {
	return generations{max: limit, young: make(map[uuid.UUID]struct{})}
}

func (g *generations) add(id uuid.UUID) bool {
	if _, ok := g.young[id]; ok {
		return false
	}
	if _, ok := g.old[id]; ok {
		return false
	}
	if len(g.young) >= g.max {
		g.young, g.old = make(map[uuid.UUID]struct{}), g.young
	}
	g.young[id] = struct{}{}
	return true
}

func (g *generations) remove(id uuid.UUID) {
	delete(g.young, id)
	delete(g.old, id)
}
