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
	// maxCachedEvents is the most events whose seats are cached. Each takes at most 1 MB of memory.
	maxCachedEvents = 128
	// readAttempts is how often an event is read if it is changed during every read.
	readAttempts = 3
	// After readAllEvery plus a random time up to readAllJitter, the cache reads all seats again. So a
	// change that it has missed is shown by then.
	readAllEvery, readAllJitter = 25 * time.Second, 10 * time.Second
	// pruneEvery is how often Pruner's worker deletes old rows.
	pruneEvery = 10 * time.Second
	// pruneRows is the most rows that one statement deletes.
	pruneRows = 5000
)

// seatCache keeps the states of seats by event, so that a snapshot of an event reads only the
// changes since the last one.
type seatCache struct {
	now     func() time.Time
	mu      sync.Mutex
	entries map[string]*cachedSeats
}

// cachedSeats has the seats of one event as a snapshot of the database showed them.
type cachedSeats struct {
	mu       sync.Mutex
	event    event.Event
	seats    *event.Occupancy // nil: not read yet
	snapshot string           // the pg_snapshot of the last read
	// serverStarted is when the database server of the snapshot started. Another server, or one
	// that was restored from a backup, may use the same transaction ids again.
	serverStarted time.Time
	readAllAt     time.Time // from this time on, all seats are read again
	used          time.Time // when it was used last; guarded by seatCache.mu
}

// get returns the entry of an event, a new one if there is none. A new entry replaces the least
// recently used one when the cache is full.
func (c *seatCache) get(id string) *cachedSeats {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] == nil {
		if len(c.entries) >= maxCachedEvents {
			c.evictOldest()
		}
		c.entries[id] = &cachedSeats{}
	}
	c.entries[id].used = c.now()
	return c.entries[id]
}

func (c *seatCache) evictOldest() {
	var oldest string
	for id, entry := range c.entries {
		if oldest == "" || entry.used.Before(c.entries[oldest].used) {
			oldest = id
		}
	}
	delete(c.entries, oldest)
}

func (c *seatCache) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, id)
}

func (s *Store) Snapshot(ctx context.Context, id string) (event.Snapshot, error) {
	c, q := s.seats.get(id), s.database.ReadQueries()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seats != nil && s.seats.now().Before(c.readAllAt) {
		at, ok, err := c.update(ctx, q, id)
		if err != nil {
			return event.Snapshot{}, err
		}
		if ok {
			return c.snapshotAt(ctx, q, at)
		}
	}
	return s.readAll(ctx, q, id, c)
}

// snapshotAt returns the cached seats at a time. It reads the counts of sections without seats.
func (c *cachedSeats) snapshotAt(ctx context.Context, q *postgres.Queries, at time.Time) (event.Snapshot, error) {
	snap := c.seats.Snapshot(&c.event, at)
	if c.event.Seating != event.Mixed {
		return snap, nil
	}
	counts, err := countTakenAdmissions(ctx, q, c.event.ID)
	return snap.WithGeneralSections(counts), err
}

// update reads and applies the changes since the last snapshot, and returns the time of the new
// one. ok is false when the stored changes are not complete, so that all seats must be read.
func (c *cachedSeats) update(ctx context.Context, q *postgres.Queries, id string) (at time.Time, ok bool, err error) {
	rows, err := q.SeatChanges(ctx, db.SeatChangesParams{EventID: id, Since: c.snapshot, Now: q.AsOf})
	if err != nil {
		return at, false, pkgpostgres.Err(err)
	}
	if len(rows) == 0 || !c.hasAllChanges(&rows[0]) {
		return at, false, nil
	}
	for _, r := range rows {
		c.set(r.Idx, r.States)
	}
	c.snapshot = rows[0].Snapshot
	return rows[0].Now.UTC(), true, nil
}

// hasAllChanges reports whether all changes since the cached snapshot were read, according to r.
func (c *cachedSeats) hasAllChanges(r *db.SeatChangesRow) bool {
	return r.Complete && r.ServerStarted.Equal(c.serverStarted) && r.Version == c.event.Version && event.State(r.State) == c.event.State
}

func (c *cachedSeats) set(indexes []int32, states []int64) {
	for i, index := range indexes {
		c.seats.Set(index, states[i])
	}
}

// readAll reads an event and all of its places. Events without seats do not stay in the cache.
func (s *Store) readAll(ctx context.Context, q *postgres.Queries, id string, c *cachedSeats) (event.Snapshot, error) {
	c.seats = nil
	for range readAttempts {
		e, now, err := findEvent(ctx, q, id)
		if err != nil || e.Seating == event.General {
			s.seats.remove(id)
		}
		if err != nil {
			return event.Snapshot{}, err
		}
		if e.Seating == event.General {
			taken, err := countTakenAdmissions(ctx, q, id)
			return event.NewSnapshotFromCounts(e, now, taken), err
		}
		row, err := q.TakenSeats(ctx, db.TakenSeatsParams{EventID: id, Now: q.AsOf})
		if err != nil {
			return event.Snapshot{}, pkgpostgres.Err(err)
		}
		if row.Version != e.Version { // the event was changed between the statements
			continue
		}
		c.event, c.seats, c.snapshot, c.serverStarted = e, event.NewOccupancy(&e), row.Snapshot, row.ServerStarted
		c.readAllAt = s.seats.now().Add(readAllEvery + rand.N(readAllJitter)) //nolint:gosec // spreads load, nothing secret
		c.set(row.Idx, row.States)
		return c.snapshotAt(ctx, q, row.Now.UTC())
	}
	return event.Snapshot{}, fmt.Errorf("event %s is being changed", id)
}

// PruneChanges deletes the rows about changes of seats that are at least 30 s old. A replica that
// has not read them by then reads all seats instead. Any number of replicas may call it at once.
func (s *Store) PruneChanges(ctx context.Context) error {
	q := s.database.Queries()
	if err := q.MoveSeatChangesBound(ctx, q.AsOf); err != nil {
		return pkgpostgres.Err(err)
	}
	for _, remove := range []func(context.Context, int32) (int64, error){q.PruneSeatChanges, q.DropRestoredSeatChanges} {
		if _, err := loop.Batches(ctx, pruneRows, remove); err != nil {
			return pkgpostgres.Err(err)
		}
	}
	return nil
}

// Pruner returns a worker that deletes old rows about changes of seats, until its context ends.
func (s *Store) Pruner(log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "changes of seats not pruned", s.PruneChanges)
}
