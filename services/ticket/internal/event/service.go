package event

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
)

// Ages of what is read once for everybody.
const (
	snapshotAge = 100 * time.Millisecond
	headAge     = time.Second
	pageAge     = time.Second
	// maxRemembered bounds each of the three.
	maxRemembered = 4096
)

// Reader reads events.
type Reader interface {
	// FindEvent returns an event with its sections; ErrNotFound.
	FindEvent(ctx context.Context, id string) (Event, error)
	// Snapshot reads what is free now; ErrNotFound.
	Snapshot(ctx context.Context, id string) (Snapshot, error)
	// ListEvents returns up to limit events behind the cursor (nil: from the beginning), the latest to start first. Their snapshots
	// count, but have no bitmap.
	ListEvents(ctx context.Context, limit int, after *Cursor) ([]Snapshot, error)
}

// Writer changes events.
type Writer interface {
	// PutEvent creates the event when it is absent; else it changes it as far as what is held or sold allows (ErrLocked). It returns
	// the event as it is then. once, unless nil, makes a repetition return what the first call returned.
	PutEvent(ctx context.Context, e Event, spec *Spec, once *idempotency.Key) (Event, error)
}

// Lines keeps the settings of waiting lines.
type Lines interface {
	// LineSettings returns defaults where nobody has set anything; ErrNotFound for an id that neither an event nor settings have.
	LineSettings(ctx context.Context, eventID string) (LineSettings, error)
	ChangeLine(ctx context.Context, eventID string, change LineChange) (LineSettings, error)
}

// Cursor is a place in the list of events.
type Cursor struct {
	StartsAt time.Time
	ID       string
}

// Service answers what is on sale.
type Service struct {
	reader    Reader
	writer    Writer
	lines     Lines
	snapshots *fresh[string, Snapshot]
	heads     *fresh[string, Event]
	pages     *fresh[pageKey, []Snapshot]
}

type pageKey struct {
	limit int
	after Cursor
}

// NewService makes a Service.
func NewService(reader Reader, writer Writer, lines Lines) *Service {
	return &Service{
		reader: reader, writer: writer, lines: lines,
		snapshots: newFresh(snapshotAge, maxRemembered, reader.Snapshot),
		heads:     newFresh(headAge, maxRemembered, reader.FindEvent),
		pages: newFresh(pageAge, maxRemembered, func(ctx context.Context, k pageKey) ([]Snapshot, error) {
			if k.after == (Cursor{}) {
				return reader.ListEvents(ctx, k.limit, nil)
			}
			return reader.ListEvents(ctx, k.limit, &k.after)
		}),
	}
}

// Snapshot returns an event and what is free of it, at most 100 ms old.
func (s *Service) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	return s.snapshots.get(ctx, id)
}

// Head returns an event without what is free, at most 1 s old: for what hardly ever changes, as title and seating.
func (s *Service) Head(ctx context.Context, id string) (Event, error) { return s.heads.get(ctx, id) }

// List returns up to limit events behind the cursor, at most 1 s old, and the cursor of the next page, nil when there is none.
func (s *Service) List(ctx context.Context, limit int, after Cursor) ([]Snapshot, *Cursor, error) {
	page, err := s.pages.get(ctx, pageKey{limit: limit + 1, after: after})
	if err != nil || len(page) <= limit {
		return page, nil, err
	}
	last := page[limit-1].Event
	return page[:limit], &Cursor{StartsAt: last.StartsAt, ID: last.ID}, nil
}

// Create makes a new event with an id of its own.
func (s *Service) Create(ctx context.Context, spec Spec, once *idempotency.Key) (Snapshot, error) {
	spec.ID = uuid.Must(uuid.NewV7()).String()
	return s.put(ctx, spec, once)
}

// Put creates the event or changes it; putting again what is there already changes nothing.
func (s *Service) Put(ctx context.Context, spec Spec) (Snapshot, error) { return s.put(ctx, spec, nil) }

func (s *Service) put(ctx context.Context, spec Spec, once *idempotency.Key) (Snapshot, error) {
	e, err := spec.Event()
	if err != nil {
		return Snapshot{}, err
	}
	e, err = s.writer.PutEvent(ctx, e, &spec, once)
	if err != nil {
		return Snapshot{}, err
	}
	s.snapshots.forget(e.ID)
	s.heads.forget(e.ID)
	s.pages.forgetAll()
	return s.reader.Snapshot(ctx, e.ID)
}

// LineSettings returns a line's settings; ErrNotFound.
func (s *Service) LineSettings(ctx context.Context, eventID string) (LineSettings, error) {
	return s.lines.LineSettings(ctx, eventID)
}

// ChangeLine changes a line's settings and returns them all.
func (s *Service) ChangeLine(ctx context.Context, eventID string, change LineChange) (LineSettings, error) {
	return s.lines.ChangeLine(ctx, eventID, change)
}
