package request

import (
	"context"
	"time"

	"urr.guru/pkg/readcache"
)

const (
	freshFor  = time.Second // up to this age most values are returned from the cache
	maxCached = 10_000      // the maximum number of cached ids, including ids that do not exist
)

// cacheOf is a cache of what was read about promotions, by their ids.
type cacheOf[V any] = readcache.Cache[string, V]

func newCache[V any](now func() time.Time, fresh time.Duration, load func(context.Context, string) (V, error)) *cacheOf[V] {
	return readcache.New(now, fresh, maxCached, load)
}
