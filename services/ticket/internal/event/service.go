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
	standingAge = time.Second
	soldOutAge  = 5 * time.Second
	// countAge is the age of the free places that a list shows. They are counted event by event, whatever pages are asked for.
	countAge = 5 * time.Second
	// maxRemembered bounds each of the five.
	maxRemembered = 4096
	// listLoads is how many pages and counts are read at once, so that lists leave connections for those who are about to buy; listQueue is
	// how many more may wait.
	listLoads = 4
	listQueue = 1000
	// saleLoads and saleQueue are the same for where sales stand, which every replica of queue asks
	// once a second.
	saleLoads = 1
	saleQueue = 100
	// standingsAtOnce is how many sales one statement reads; when it fails, it fails for these.
	standingsAtOnce = 50
)

// Reader reads events.
type Reader interface {
	// FindEvent returns an event with its sections; ErrNotFound.
	FindEvent(ctx context.Context, id string) (Event, error)
	// Snapshot reads what is free now; ErrNotFound.
	Snapshot(ctx context.Context, id string) (Snapshot, error)
	// ListEvents returns up to limit events behind the cursor (nil: from the beginning), the latest to start first.
	ListEvents(ctx context.Context, limit int, after *Cursor) (Page, error)
	// Taken counts the places of an event that are not free, by section.
	Taken(ctx context.Context, id string, seating Seating) (Counts, error)
	// Standings returns where sales stand, by id; those that do not exist are left out.
	Standings(ctx context.Context, ids []string) (map[string]Standing, error)
}

// Page is a part of the list of events.
type Page struct {
	Events []Event
	// At is the database's clock when it was read.
	At time.Time
}

// Writer changes events.
type Writer interface {
	// PutEvent creates the event when it is absent; else it changes it as far as what is held or sold allows (ErrLocked), if it still is
	// what spec.IfMatch demands (ErrChanged). It returns the event as it is then. once, unless nil, makes a repetition return what the
	// first call returned.
	PutEvent(ctx context.Context, e Event, spec *Spec, once *idempotency.Key) (Event, error)
	// Settings returns all that operators have put for an event; ErrNotFound.
	Settings(ctx context.Context, id string) (Settings, error)
}

// Lines keeps the settings of waiting lines.
type Lines interface {
	// LineSettings returns defaults where nobody has set anything; ErrNotFound for an id that neither an event nor settings have.
	LineSettings(ctx context.Context, eventID string) (LineSettings, error)
	ChangeLine(ctx context.Context, eventID string, change LineChange) (LineSettings, error)
	// MarkLineOpened records that a line was opened, and reports whether this call did.
	MarkLineOpened(ctx context.Context, eventID string) (first bool, err error)
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
	pages     *fresh[pageKey, Page]
	counts    *fresh[countKey, Counts]
	standings *fresh[string, Standing]
	lists     *gate
	sales     *gate
}

type pageKey struct {
	limit int
	after Cursor
}

// countKey has the version, since other sections need other counts.
type countKey struct {
	id      string
	version int64
	seating Seating
}

// NewService makes a Service.
func NewService(reader Reader, writer Writer, lines Lines) *Service {
	s := &Service{
		reader: reader, writer: writer, lines: lines,
		snapshots: newFresh(snapshotAge, maxRemembered, reader.Snapshot),
		heads:     newFresh(headAge, maxRemembered, reader.FindEvent),
		lists:     newGate(listLoads, listQueue),
		sales:     newGate(saleLoads, saleQueue),
	}
	s.pages = newFresh(pageAge, maxRemembered, s.loadPage)
	s.counts = newFresh(countAge, maxRemembered, s.loadCount)
	s.standings = newFreshBatch(standingAge, maxRemembered, s.loadStandings)
	s.standings.lasts, s.standings.atOnce = Standing.lasts, standingsAtOnce
	return s
}

// Snapshot returns an event and what is free of it, at most 100 ms old.
func (s *Service) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	return s.snapshots.get(ctx, id)
}

// Head returns an event without what is free, at most 1 s old: for what hardly ever changes, as title and seating.
func (s *Service) Head(ctx context.Context, id string) (Event, error) { return s.heads.get(ctx, id) }

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
	s.standings.forget(e.ID)
	s.pages.forgetAll()
	return s.reader.Snapshot(ctx, e.ID)
}

// Settings returns all that is in force of an event, as it is now; ErrNotFound.
func (s *Service) Settings(ctx context.Context, id string) (Settings, error) {
	return s.writer.Settings(ctx, id)
}

// LineSettings returns a line's settings; ErrNotFound.
func (s *Service) LineSettings(ctx context.Context, eventID string) (LineSettings, error) {
	return s.lines.LineSettings(ctx, eventID)
}

// MarkLineOpened records that a line was opened. Of all callers one is told that it is the first.
func (s *Service) MarkLineOpened(ctx context.Context, eventID string) (first bool, err error) {
	return s.lines.MarkLineOpened(ctx, eventID)
}

// ChangeLine changes a line's settings and returns them all.
func (s *Service) ChangeLine(ctx context.Context, eventID string, change LineChange) (LineSettings, error) {
	return s.lines.ChangeLine(ctx, eventID, change)
}
