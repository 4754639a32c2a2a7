package event

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/limit"
)

// How old cached values may be.
const (
	snapshotAge = 100 * time.Millisecond
	// seatsAge is for snapshots with seats: gateways may keep them as long again.
	seatsAge      = 50 * time.Millisecond
	headAge       = time.Second
	pageAge       = time.Second
	saleStatusAge = time.Second
	soldOutAge    = 5 * time.Second
	// countAge is for the free places that a list shows. They are counted event by event, whichever
	// pages are requested.
	countAge = 5 * time.Second
	// maxCached bounds the entries of each cache.
	maxCached = 4096
	// listLoads is how many pages and counts are read at once, so that lists leave connections for
	// buyers; listQueue is how many more may wait.
	listLoads = 4
	listQueue = 1000
	// saleLoads and saleQueue are the same for sale statuses, which every replica of queue requests
	// once a second.
	saleLoads = 1
	saleQueue = 100
	// statusesPerQuery is how many sales one query reads. When it fails, it fails for all of them.
	statusesPerQuery = 50
)

// Reader reads events.
type Reader interface {
	// FindEvent returns an event with its sections, or ErrNotFound.
	FindEvent(ctx context.Context, id string) (Event, error)
	// Snapshot reads what is free now, or ErrNotFound.
	Snapshot(ctx context.Context, id string) (Snapshot, error)
	// ListEvents returns up to limit events behind the cursor (nil: from the beginning), the latest
	// to start first.
	ListEvents(ctx context.Context, limit int, after *Cursor) (Page, error)
	// Taken counts the places of an event that are not free, by section.
	Taken(ctx context.Context, id string, seating Seating) (Counts, error)
	// SaleStatuses returns the statuses of sales by id; ids without a sale are left out.
	SaleStatuses(ctx context.Context, ids []string) (map[string]SaleStatus, error)
}

// Page is a part of the list of events.
type Page struct {
	Events []Event
	// At is the database's clock when it was read.
	At time.Time
}

// Writer changes events.
type Writer interface {
	// PutEvent creates the event when it is absent. Else it changes the event as far as held and
	// sold places allow (ErrLocked), if the settings still match, unless match is nil (ErrChanged).
	// It returns the stored event. A repetition with the same key, unless nil, returns the event that
	// the first call created.
	PutEvent(ctx context.Context, e Event, match *Match, key *idempotency.Key) (Event, error)
}

// SettingsStore keeps what operators have set for events and waiting lines.
type SettingsStore interface {
	// Settings returns an event with all its settings, those of its line too, as they are now, or
	// ErrNotFound.
	Settings(ctx context.Context, id string) (Event, error)
	// LineSettings returns defaults for settings that are not set, or ErrNotFound for an id that
	// has neither an event nor settings.
	LineSettings(ctx context.Context, eventID string) (LineSettings, error)
	// ChangeLine changes a line's settings and returns them all.
	ChangeLine(ctx context.Context, eventID string, change LineChange) (LineSettings, error)
	// MarkLineOpened records that a line was opened, and reports whether this call did.
	MarkLineOpened(ctx context.Context, eventID string) (first bool, err error)
}

// Cursor is a place in the list of events.
type Cursor struct {
	StartsAt time.Time
	ID       string
}

// Service answers what is on sale. Settings are not cached: it offers the methods of their store as
// they are.
type Service struct {
	SettingsStore

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

type pageKey struct {
	limit int
	after Cursor
}

// countKey includes the version, since a change of the sections changes the counts.
type countKey struct {
	id      string
	version int64
	seating Seating
}

// NewService makes a Service.
func NewService(reader Reader, writer Writer, settings SettingsStore) *Service {
	s := &Service{
		SettingsStore: settings, reader: reader, writer: writer,
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

// Snapshot returns an event and what is free of it, at most 100 ms old.
func (s *Service) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	return s.snapshots.get(ctx, id)
}

// Head returns an event without its free places, at most 1 s old: for what rarely changes, as title
// and seating.
func (s *Service) Head(ctx context.Context, id string) (Event, error) { return s.heads.get(ctx, id) }

// Create makes a new event with an id of its own.
func (s *Service) Create(ctx context.Context, spec Spec, key *idempotency.Key) (Snapshot, error) {
	return s.put(ctx, uuid.Must(uuid.NewV7()).String(), spec, nil, key)
}

// Put creates the event or changes it; putting again what is there already changes nothing.
func (s *Service) Put(ctx context.Context, id string, spec Spec, match *Match) (Snapshot, error) {
	return s.put(ctx, id, spec, match, nil)
}

func (s *Service) put(ctx context.Context, id string, spec Spec, match *Match, key *idempotency.Key) (Snapshot, error) {
	spec, err := spec.Checked()
	if err != nil {
		return Snapshot{}, err
	}
	e, err := s.writer.PutEvent(ctx, Event{ID: id, Spec: spec, State: Open}, match, key)
	if err != nil {
		return Snapshot{}, err
	}
	s.snapshots.invalidate(e.ID)
	s.heads.invalidate(e.ID)
	s.saleStatuses.invalidate(e.ID)
	s.pages.invalidateAll()
	return s.reader.Snapshot(ctx, e.ID)
}
