// Package absence caches for a second that something does not exist. So repeated requests for the
// same made-up id cause only one call of a service.
package absence

import (
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

const (
	// ttl is how long an error stays cached, even if another gateway creates the key meanwhile.
	ttl     = time.Second
	maxKeys = 20_000
)

// Cache keeps the errors that services returned because a key does not exist. It is safe for
// concurrent use.
type Cache[K comparable] struct {
	notFound *otter.Cache[K, error]
}

// New makes a Cache; clock is nil except in tests.
func New[K comparable](clock otter.Clock) (Cache[K], error) {
	notFound, err := otter.New(&otter.Options[K, error]{MaximumSize: maxKeys, Clock: clock, ExpiryCalculator: otter.ExpiryWriting[K, error](ttl)})
	return Cache[K]{notFound}, err
}

// Check returns the error that was cached for a key within the last second, or nil.
func (c Cache[K]) Check(key K) error {
	err, _ := c.notFound.GetIfPresent(key)
	return err
}

// Note caches an error if it says that the key does not exist, and returns the error.
func (c Cache[K]) Note(key K, err error) error {
	if err != nil && errs.From(err).Kind == errs.NotFound {
		_, _ = c.notFound.Set(key, err)
	}
	return err
}

// Forget drops the cached error of a key that exists now.
func (c Cache[K]) Forget(key K) { _, _ = c.notFound.Invalidate(key) }
