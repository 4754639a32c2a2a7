package events

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	// readAllEvery is how long changes are relied on at least, and readAllJitter how much longer at
	// most: whatever a hall has missed, it has not missed it for long.
	readAllEvery, readAllJitter = 25 * time.Second, 10 * time.Second
	// pruneEvery is the interval of Pruner, pruneRows how many rows a statement of it deletes.
	pruneEvery = 10 * time.Second
	pruneRows  = 5000
)

// halls keep the seats of events with assigned seating, so that snapshots read only what has
// changed since the last one.
type halls struct {
	now  func() time.Time
	mu   sync.Mutex
	open map[string]*hall
}

// hall is the seats of an event as of a snapshot of the database.
type hall struct {
	mu       sync.Mutex
	event    event.Event
	seats    *event.Occupancy // nil: nothing is read yet
	snapshot string           // a pg_snapshot
	// started is when the server of the snapshot started. The transactions of another server, or of
	// one that was restored, may have the same ids.
	started time.Time
	until   time.Time // all seats are read again then
	used    time.Time // guarded by halls.mu
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
	h.open[id].used = h.now()
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

func (s *Store) Snapshot(ctx context.Context, id string) (event.Snapshot, error) {
	h, q := s.halls.of(id), s.database.ReadQueries()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seats != nil && s.halls.now().Before(h.until) {
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
	if len(rows) == 0 || !h.continues(&rows[0]) {
		return at, false, nil
	}
	for _, r := range rows {
		h.set(r.Idx, r.States)
	}
	h.snapshot = rows[0].Snapshot
	return rows[0].Now.UTC(), true, nil
}

// continues reports whether what was read now are all changes since the hall's snapshot.
func (h *hall) continues(r *db.SeatChangesRow) bool {
	return r.Complete && r.ServerStarted.Equal(h.started) && r.Version == h.event.Version && event.State(r.State) == h.event.State
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
		h.event, h.seats, h.snapshot, h.started = e, event.NewOccupancy(&e), row.Snapshot, row.ServerStarted
		h.until = s.halls.now().Add(readAllEvery + rand.N(readAllJitter)) //nolint:gosec // spreads load, nothing secret
		h.set(row.Idx, row.States)
		return h.seats.Snapshot(&h.event, row.Now.UTC()), nil
	}
	return event.Snapshot{}, fmt.Errorf("event %s is being changed", id)
}

// PruneChanges deletes changes of seats that every replica has read, or will not need: one that has
// not read them for half a minute reads all seats. Any number of replicas may prune at once.
func (s *Store) PruneChanges(ctx context.Context) error {
	q := s.database.Queries()
	if err := q.MoveSeatChangesBound(ctx, q.AsOf); err != nil {
		return pkgpostgres.Err(err)
	}
	for _, remove := range []func(context.Context, int32) (int64, error){q.PruneSeatChanges, q.DropRestoredSeatChanges} {
		for n := int64(pruneRows); n == pruneRows; { // fewer: no more are left, or another replica deletes them
			var err error
			if n, err = remove(ctx, pruneRows); err != nil {
				return pkgpostgres.Err(err)
			}
		}
	}
	return nil
}

// Pruner returns a worker that prunes changes until its context ends.
func (s *Store) Pruner(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, pruneEvery, log, "changes of seats not pruned", s.PruneChanges)
	}
}
