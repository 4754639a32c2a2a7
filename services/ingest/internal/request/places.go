package request

import (
	"context"
	"time"

	"urr.guru/pkg/promotion"
)

// placesMaxAge is how long a cached number of places is used. With the age of the gateways' cache
// it is below a second, since everybody must see within a second that no place is left.
const placesMaxAge = 500 * time.Millisecond

// ReadCapacity reads the capacity of a promotion; limited is false if it has none.
type ReadCapacity func(ctx context.Context, eventID string) (c promotion.Capacity, limited bool, err error)

// Places tells how many places first-come promotions have left, from a cache.
type Places struct {
	cache *cacheOf[placesLeft]
}

type placesLeft struct {
	n       int64
	limited bool
}

// NewPlaces returns Places that call read to get a promotion's capacity.
func NewPlaces(now func() time.Time, read ReadCapacity) *Places {
	return &Places{newCache(now, placesMaxAge, func(ctx context.Context, eventID string) (placesLeft, error) {
		c, limited, err := read(ctx, eventID)
		return placesLeft{c.Remaining, limited}, err
	})}
}

// Left returns how many places a promotion has left. limited is false for a lottery, and for a
// promotion whose capacity is missing.
func (s *Places) Left(ctx context.Context, p *promotion.Promotion) (n int64, limited bool, err error) {
	if p.EventType != promotion.FirstCome {
		return 0, false, nil
	}
	left, err := s.cache.Get(ctx, p.EventID)
	return left.n, left.limited, err
}
