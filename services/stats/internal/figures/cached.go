package figures

import (
	"context"
	"time"

	"urr.guru/pkg/readcache"
)

const (
	freshFor = time.Second // up to this age figures are returned from the cache
	// maxTotals and maxSeries are how many results are cached: of a kilobyte, and of up to a megabyte.
	maxTotals = 2000
	maxSeries = 32
)

// EventStore reads the figures of one event: totals and series.
type EventStore interface {
	EventFigures(ctx context.Context, eventID string) (EventFigures, error)
	EventSeries(ctx context.Context, q SeriesQuery) ([]Point, error)
}

// Cached reads figures of events at most once a second, with one query in progress for each event and
// series. If a query fails, figures are up to a minute old. Callers must not change what it returns.
type Cached struct {
	totals *readcache.Cache[string, EventFigures]
	series *readcache.Cache[SeriesQuery, []Point]
}

var _ EventStore = (*Cached)(nil)

// NewCached makes a cache of what store reads.
func NewCached(store EventStore, now func() time.Time) *Cached {
	return &Cached{
		totals: readcache.New(now, freshFor, maxTotals, store.EventFigures),
		series: readcache.New(now, freshFor, maxSeries, store.EventSeries),
	}
}

// EventFigures returns the totals of an event. They are empty if nothing was counted.
func (c *Cached) EventFigures(ctx context.Context, eventID string) (EventFigures, error) {
	return c.totals.Get(ctx, eventID)
}

// EventSeries returns the steps of q in which something was counted, in order of time.
func (c *Cached) EventSeries(ctx context.Context, q SeriesQuery) ([]Point, error) {
	return c.series.Get(ctx, q)
}
