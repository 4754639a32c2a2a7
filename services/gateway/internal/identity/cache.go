package identity

import (
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/token"
)

// expirer is what every kind of token's claims can tell.
type expirer interface{ Expiry() time.Time }

// cache keeps the claims of verified tokens until they expire, so that a visitor who polls costs one signature check per token instead of
// one per poll. Only what verified gets in, so a flood of forgeries cannot push genuine ones out; its size is bounded all the same.
type cache[C expirer] struct {
	entries *otter.Cache[string, C]
}

func newCache[C expirer](size int, now func() time.Time) (*cache[C], error) {
	c, err := otter.New(&otter.Options[string, C]{
		MaximumSize: size,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, C]) time.Duration {
			return max(time.Millisecond, e.Value.Expiry().Sub(now()))
		}),
	})
	if err != nil {
		return nil, err
	}
	return &cache[C]{entries: c}, nil
}

// get returns the claims of tok, verifying it when they are not known. The cache's own expiry only frees memory: what counts is now.
func (c *cache[C]) get(tok string, now time.Time, verify func(string) (C, error)) (C, error) {
	if claims, ok := c.entries.GetIfPresent(tok); ok && now.Before(claims.Expiry()) {
		return claims, nil
	}
	claims, err := verify(tok)
	if err == nil && !now.Before(claims.Expiry()) {
		err = token.ErrExpired // what a kind says itself can be finer than its exp
	}
	if err == nil {
		c.entries.Set(tok, claims)
	}
	return claims, err
}
