package postgres

import (
	"context"
	"maps"

	"urr.guru/services/ticket/internal/postgres/db"
)

// Moved is by how much the counters of a section change: of sold places, of those that the organiser
// keeps, and of those that were given back.
type Moved struct{ Sold, House, Returns int64 }

// Moves are the changes of the counters of sections.
type Moves map[sectionKey]Moved

type sectionKey struct{ eventID, name string }

// Add adds a change of a section.
func (m Moves) Add(eventID, section string, by Moved) {
	key := sectionKey{eventID, section}
	was := m[key]
	m[key] = Moved{Sold: was.Sold + by.Sold, House: was.House + by.House, Returns: was.Returns + by.Returns}
}

// MoveSold changes the counters, which are the last locks of a transaction.
func (q *Queries) MoveSold(ctx context.Context, m Moves) error {
	maps.DeleteFunc(m, func(_ sectionKey, by Moved) bool { return by == Moved{} })
	if len(m) == 0 {
		return nil
	}
	var arg db.MoveSoldParams
	for s, by := range m {
		arg.EventIds, arg.Sections = append(arg.EventIds, s.eventID), append(arg.Sections, s.name)
		arg.Sold, arg.House, arg.Returns = append(arg.Sold, by.Sold), append(arg.House, by.House), append(arg.Returns, by.Returns)
	}
	n, err := q.Queries.MoveSold(ctx, arg)
	return ExpectRows(n, len(m), "sections", err)
}
