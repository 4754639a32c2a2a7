package event

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/limit"
)

const (
	// Maximum ages of cached values. seatsAge applies to snapshots with seats, which gateways may
	// cache for another 50 ms; countAge applies to the numbers of free places in lists.
	snapshotAge   = 100 * time.Millisecond
	seatsAge      = 50 * time.Millisecond
	headAge       = time.Second
	pageAge       = time.Second
	saleStatusAge = time.Second
	soldOutAge    = 5 * time.Second
	countAge      = 5 * time.Second
	// maxCached is how many entries a cache has before it deletes expired ones.
	maxCached = 4096
	// listLoads is the most reads of pages and counts at once, so that lists leave connections for
	// buyers. Up to listQueue more reads wait.
	listLoads = 4
	listQueue = 1000
	// saleLoads is the most reads of sale statuses at once; up to saleQueue more wait. Every replica
	// of the queue service requests the statuses once a second.
	saleLoads = 1
	saleQueue = 100
	// statusesPerQuery is the most sales of one query, since an error affects all of its sales.
	statusesPerQuery = 50
)

// Reader reads events from the database.
type Reader interface {
	// FindEvent returns an event with its sections, or ErrNotFound.
	FindEvent(ctx context.Context, id string) (Event, error)
	// Snapshot returns an event with its free places, or ErrNotFound.
	Snapshot(ctx context.Context, id string) (Snapshot, error)
	// ListEvents returns up to limit events after the cursor (nil: from the beginning), in
	// descending order of their start.
	ListEvents(ctx context.Context, limit int, after *Cursor) (Page, error)
	// CountTaken counts the places of an event that are held or sold, by section.
	CountTaken(ctx context.Context, id string, seating Seating) (Counts, error)
	// Takers returns the payment providers and what they take.
	Takers(ctx context.Context) (Takers, error)
	// SaleStatuses returns the statuses of sales by id; ids without a sale are left out.
	SaleStatuses(ctx context.Context, ids []string) (map[string]SaleStatus, error)
}

// Page is a part of the list of all events.
type Page struct {
	Events []Event
	// At is the database's time when the page was read.
	At time.Time
}

// Writer changes events in the database.
type Writer interface {
	// PutEvent creates or changes an event and returns it as it is stored. ErrLocked when held or
	// sold places forbid the change, ErrChanged when the stored settings do not meet the condition
	// match (nil: no condition). A repeated call with the same key (nil: no key) returns the event
	// that the first call created.
	PutEvent(ctx context.Context, e Event, match *Match, key *idempotency.Key) (Event, error)
	OperatorStore
}

// SettingsStore reads and changes the settings of events and waiting lines.
type SettingsStore interface {
	// Settings returns an event with all its settings, including those of its line, or ErrNotFound.
	Settings(ctx context.Context, id string) (Event, error)
	// LineSettings returns the settings of a line, with defaults for those that nobody has set, or
	// ErrNotFound for an id that has neither an event nor settings.
	LineSettings(ctx context.Context, eventID string) (LineSettings, error)
	// ChangeLine changes settings of a line and returns all of them.
	ChangeLine(ctx context.Context, eventID string, change LineChange) (LineSettings, error)
	// MarkLineOpened records that the line was opened; first is false when that was recorded before.
	MarkLineOpened(ctx context.Context, eventID string) (first bool, err error)
}

// Cursor is a position in the list of events.
type Cursor struct {
	StartsAt time.Time
	ID       string
}

// Service reads events through caches, and changes them. The methods of the embedded SettingsStore
// read the store without a cache.
type Service struct {
	SettingsStore

	// StatementRoom is the most characters of a StatementSuffix. NewService sets that of an unknown prefix.
	StatementRoom int

	reader       Reader
	writer       Writer
	snapshots    *cache[string, Snapshot]
	heads        *cache[string, Event]
	pages        *cache[pageKey, Page]
	counts       *cache[countKey, Counts]
	saleStatuses *cache[string, SaleStatus]
	lists        *limit.Limiter
	sales        *limit.Limiter
}

// pageKey is the cache key of a page in the list of events.
type pageKey struct {
	limit int
	after Cursor
}

// countKey is the cache key of an event's counts. Every change of the event changes its version.
type countKey struct {
	id      string
	version int64
	seating Seating
}

// NewService makes a Service that reads and changes events through the given stores.
func NewService(reader Reader, writer Writer, settings SettingsStore) *Service {
	s := &Service{
		SettingsStore: settings, StatementRoom: StatementRoom(""), reader: reader, writer: writer,
		snapshots: newCache(snapshotAge, maxCached, reader.Snapshot),
		heads:     newCache(headAge, maxCached, reader.FindEvent),
		lists:     limit.New(listLoads, listQueue),
		sales:     limit.New(saleLoads, saleQueue),
	}
	s.snapshots.maxAgeOf = Snapshot.maxAge
	s.pages = newCache(pageAge, maxCached, s.loadPage)
	s.counts = newCache(countAge, maxCached, s.loadCount)
	s.saleStatuses = newBatchCache(saleStatusAge, maxCached, s.loadSaleStatuses)
	s.saleStatuses.maxAgeOf, s.saleStatuses.maxKeysPerLoad = SaleStatus.maxAge, statusesPerQuery
	return s
}

// Snapshot returns an event with its free places, at most 100 ms old.
func (s *Service) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	return s.snapshots.get(ctx, id)
}

// Event returns an event without its free places, at most 1 s old.
func (s *Service) Event(ctx context.Context, id string) (Event, error) { return s.heads.get(ctx, id) }

func (s *Service) Create(ctx context.Context, spec Spec, key *idempotency.Key) (Snapshot, error) {
	return s.put(ctx, uuid.Must(uuid.NewV7()).String(), spec, nil, key)
}

// Put creates or changes an event. It is idempotent.
func (s *Service) Put(ctx context.Context, id string, spec Spec, match *Match) (Snapshot, error) {
	return s.put(ctx, id, spec, match, nil)
}

func (s *Service) put(ctx context.Context, id string, spec Spec, match *Match, key *idempotency.Key) (Snapshot, error) {
	spec, err := spec.Validated()
	if err == nil {
		err = spec.checkStatementLength(s.StatementRoom)
	}
	if err != nil {
		return Snapshot{}, err
	}
	takers, err := s.reader.Takers(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	if bad := takers.check(&spec); len(bad) > 0 {
		return Snapshot{}, ErrInvalid.WithFields(bad...)
	}
	e, err := s.writer.PutEvent(ctx, Event{ID: id, Spec: spec, State: Open}, match, key)
	if err != nil {
		return Snapshot{}, err
	}
	s.forget(e.ID)
	snap, err := s.reader.Snapshot(ctx, e.ID)
	snap.Unchecked = len(takers) == 0
	return snap, err
}

// forget drops the cached values of an event that was changed, and all cached pages of lists.
func (s *Service) forget(id string) {
	s.snapshots.invalidate(id)
	s.heads.invalidate(id)
	s.saleStatuses.invalidate(id)
	s.pages.invalidateAll()
}
