package postgres

import (
	"context"
	"maps"

	"urr.guru/services/ticket/internal/postgres/db"
)

// CounterDelta has what a transaction adds to the counters of a section: of held places (for general
// admission), of sold places, of places that the organiser keeps, and of returned places that are not
// on sale again yet. A negative number is subtracted.
type CounterDelta struct{ Held, Sold, House, Returns int64 }

// CounterDeltas collects, by section, what one transaction adds to the counters.
type CounterDeltas map[sectionKey]CounterDelta

type sectionKey struct{ eventID, name string }

func (d CounterDeltas) Add(eventID, section string, delta CounterDelta) {
	key := sectionKey{eventID, section}
	sum := d[key]
	d[key] = CounterDelta{
		Held: sum.Held + delta.Held, Sold: sum.Sold + delta.Sold, House: sum.House + delta.House, Returns: sum.Returns + delta.Returns,
	}
}

// AddToCounters adds the collected deltas to the stored counters of sections. A transaction calls
// it last, so that it keeps these rows, for which many transactions wait, locked only briefly.
func (tx *Tx) AddToCounters(ctx context.Context, deltas CounterDeltas) error {
	maps.DeleteFunc(deltas, func(_ sectionKey, delta CounterDelta) bool { return delta == CounterDelta{} })
	if len(deltas) == 0 {
		return nil
	}
	var arg db.MoveSoldParams
	for s, delta := range deltas {
		arg.EventIds, arg.Sections = append(arg.EventIds, s.eventID), append(arg.Sections, s.name)
		arg.Held, arg.Sold = append(arg.Held, delta.Held), append(arg.Sold, delta.Sold)
		arg.House, arg.Returns = append(arg.House, delta.House), append(arg.Returns, delta.Returns)
	}
	n, err := moveSold.Take(ctx, tx, arg)
	return ExpectRows(n, len(deltas), "sections", err)
}
