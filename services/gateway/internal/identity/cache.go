package identity

import (
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/token"
)

type expirer interface{ Expiry() time.Time }

// tokenCache keeps the claims of verified tokens until they expire: a polling visitor then costs
// one signature check per token, not one per poll. Forged tokens are not kept and evict nothing.
type tokenCache[C expirer] struct {
	kind    string
	entries *otter.Cache[string, cachedClaims[C]]
}

// cachedClaims has the claims of a verified token and the keys that verified it. After a change of
// keys the token is verified again, so that a token of a removed key becomes invalid.
type cachedClaims[C expirer] struct {
	claims C
	keys   *keyRing
}

func newTokenCache[C expirer](kind string, size int, now func() time.Time) (*tokenCache[C], error) {
	c, err := otter.New(&otter.Options[string, cachedClaims[C]]{
		MaximumSize: size,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, cachedClaims[C]]) time.Duration {
			return max(time.Millisecond, e.Value.claims.Expiry().Sub(now()))
		}),
	})
	if err != nil {
		return nil, err
	}
	return &tokenCache[C]{kind: kind, entries: c}, nil
}

// get returns the claims of the token tok, which it verifies if it is not cached. It also compares
// the expiry of a cached token with now, since the expiry of cache entries only frees memory.
func (c *tokenCache[C]) get(tok string, now time.Time, keys *keyRing, verify func(*keyRing, string) (C, error)) (C, error) {
	// GetEntryQuietly does not record the use for the eviction policy, which would take a fifth of the
	// look-up's time. So a full cache keeps the tokens that were added most often.
	if k, ok := c.entries.GetEntryQuietly(tok); ok && k.Value.keys == keys && now.Before(k.Value.claims.Expiry()) {
		return k.Value.claims, nil
	}
	verified.WithLabelValues(c.kind).Inc()
	claims, err := verify(keys, tok)
	if err == nil && !now.Before(claims.Expiry()) {
		err = token.ErrExpired // some kinds expire between the whole seconds of exp
	}
	if err == nil {
		c.entries.Set(tok, cachedClaims[C]{claims, keys})
	} else {
		countRefusal(c.kind, refusalReason(err))
	}
	return claims, err
}
