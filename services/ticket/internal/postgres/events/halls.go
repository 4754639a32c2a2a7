package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"urr.guru/pkg/loop"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

const (
	// maxHalls bounds the events whose seats are kept in memory, at most 1 MB each.
	maxHalls = 128
	// layoutReads is how often an event is read again whose seats were replaced meanwhile.
	layoutReads = 3
)

// halls keep the seats of events with assigned seating, so that snapshots read only what has
// changed since the last one.
type halls struct {
	mu   sync.Mutex
	open map[string]*hall
}

// hall is the seats of an event as of a snapshot of the database.
type hall struct {
	mu       sync.Mutex
	event    event.Event
	seats    *event.Occupancy // nil: nothing is read yet
	snapshot string           // a pg_snapshot
	used     time.Time        // guarded by halls.mu
}

// of returns the hall of an event. The one that was not used for longest makes room.
func (h *halls) of(id string) *hall {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[id] == nil {
		if len(h.open) >= maxHalls {
			h.closeOldest()
		}
		h.open[id] = &hall{}
	}
	h.open[id].used = time.Now()
	return h.open[id]
}

func (h *halls) closeOldest() {
	var oldest string
	for id, hall := range h.open {
		if oldest == "" || hall.used.Before(h.open[oldest].used) {
			oldest = id
		}
	}
	delete(h.open, oldest)
}

// forget drops what is not an event with assigned seating.
func (h *halls) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, id)
}

// Snapshot implements event.Reader.
func (s *Store) Snapshot(ctx context.Context, id string) (event.Snapshot, error) {
	h, q := s.halls.of(id), s.database.ReadQueries()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seats != nil {
		at, ok, err := h.update(ctx, q, id)
		if err != nil {
			return event.Snapshot{}, err
		}
		if ok {
			return h.seats.Snapshot(&h.event, at), nil
		}
	}
	return s.readAll(ctx, q, id, h)
}

// update reads what has changed, and returns the time of that; false when all has to be read.
func (h *hall) update(ctx context.Context, q *postgres.Queries, id string) (at time.Time, ok bool, err error) {
	rows, err := q.SeatChanges(ctx, db.SeatChangesParams{EventID: id, Since: h.snapshot, Now: q.AsOf})
	if err != nil {
		return at, false, pkgpostgres.Err(err)
	}
	if len(rows) == 0 || !rows[0].Complete || rows[0].Version != h.event.Version || event.State(rows[0].State) != h.event.State {
		return at, false, nil
	}
	for _, r := range rows {
		h.set(r.Idx, r.States)
	}
	h.snapshot = rows[0].Snapshot
	return rows[0].Now.UTC(), true, nil
}

func (h *hall) set(indexes []int32, states []int64) {
	for i, index := range indexes {
		h.seats.Set(index, states[i])
	}
}

// readAll reads the event, and all of its places.
func (s *Store) readAll(ctx context.Context, q *postgres.Queries, id string, h *hall) (event.Snapshot, error) {
	h.seats = nil
	for range layoutReads {
		e, now, err := findEvent(ctx, q, id)
		if err != nil || e.Seating == event.General {
			s.halls.forget(id)
		}
		if err != nil {
			return event.Snapshot{}, err
		}
		if e.Seating == event.General {
			taken, err := takenAdmissions(ctx, q, id)
			return event.NewCounted(e, now, taken), err
		}
		row, err := q.TakenSeats(ctx, db.TakenSeatsParams{EventID: id, Now: q.AsOf})
		if err != nil {
			return event.Snapshot{}, pkgpostgres.Err(err)
		}
		if row.Version != e.Version { // the event was changed between the statements
			continue
		}
		h.event, h.seats, h.snapshot = e, event.NewOccupancy(&e), row.Snapshot
		h.set(row.Idx, row.States)
		return h.seats.Snapshot(&h.event, row.Now.UTC()), nil
	}
	return event.Snapshot{}, fmt.Errorf("event %s is being changed", id)
}

// PruneChanges deletes changes of seats that every replica has read, or will not need: one that has
// not read them for half a minute reads all seats. Any number of replicas may prune at once.
func (s *Store) PruneChanges(ctx context.Context) error {
	q := s.database.Queries()
	if _, err := q.PruneSeatChanges(ctx, q.AsOf); err != nil {
		return pkgpostgres.Err(err)
	}
	_, err := q.DropRestoredSeatChanges(ctx)
	return pkgpostgres.Err(err)
}

// pruneEvery is the interval of Pruner.
const pruneEvery = 10 * time.Second

// Pruner returns a worker that prunes changes until its context ends.
func (s *Store) Pruner(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, pruneEvery, func(ctx context.Context) {
			if err := s.PruneChanges(ctx); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "changes of seats not pruned", "error", err)
			}
		})
	}
}
