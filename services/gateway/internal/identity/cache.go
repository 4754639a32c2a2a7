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
	kind    string
	entries *otter.Cache[string, known[C]]
}

// known is what a token said when these keys verified it. Under others it is verified anew, so that
// a key which was dropped opens nothing any more.
type known[C expirer] struct {
	claims C
	keys   *ring
}

func newCache[C expirer](kind string, size int, now func() time.Time) (*cache[C], error) {
	c, err := otter.New(&otter.Options[string, known[C]]{
		MaximumSize: size,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, known[C]]) time.Duration {
			return max(time.Millisecond, e.Value.claims.Expiry().Sub(now()))
		}),
	})
	if err != nil {
		return nil, err
	}
	return &cache[C]{kind: kind, entries: c}, nil
}

// get returns the claims of tok, verifying it when they are not known. The cache's own expiry only frees memory: what counts is now.
func (c *cache[C]) get(tok string, now time.Time, keys *ring, verify func(*ring, string) (C, error)) (C, error) {
	if k, ok := c.entries.GetIfPresent(tok); ok && k.keys == keys && now.Before(k.claims.Expiry()) {
		return k.claims, nil
	}
	verified.WithLabelValues(c.kind).Inc()
	claims, err := verify(keys, tok)
	if err == nil && !now.Before(claims.Expiry()) {
		err = token.ErrExpired // what a kind says itself can be finer than its exp
	}
	if err == nil {
		c.entries.Set(tok, known[C]{claims, keys})
	} else {
		refused(c.kind, reasonOf(err))
	}
	return claims, err
}
