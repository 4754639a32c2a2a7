package dynamo

import "github.com/google/uuid"

// generations is a set that forgets: when the young generation is full, it becomes the old one, and the old one is dropped.
type generations struct {
	max        int
	young, old map[uuid.UUID]struct{}
}

func newGenerations(limit int) generations {
	return generations{max: limit, young: make(map[uuid.UUID]struct{})}
}

// add reports whether id was not in the set.
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
