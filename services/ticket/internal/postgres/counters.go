package postgres

import (
	"context"
	"maps"

	"urr.guru/services/ticket/internal/postgres/db"
)

// Moved has the differences by which the counters of a section change: of sold places, of places
// that the organiser keeps, and of places that were given back.
type Moved struct{ Sold, House, Returns int64 }

// Moves collects the changes of sections' counters that one transaction makes.
type Moves map[sectionKey]Moved

type sectionKey struct{ eventID, name string }

// Add adds differences to those that are collected for a section.
func (m Moves) Add(eventID, section string, by Moved) {
	key := sectionKey{eventID, section}
	was := m[key]
	m[key] = Moved{Sold: was.Sold + by.Sold, House: was.House + by.House, Returns: was.Returns + by.Returns}
}

// MoveSold writes the collected changes to the counters of sections. A transaction calls it last,
// since many transactions wait for the locks of these rows.
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
