package identity

import (
	"slices"

	"github.com/golang-jwt/jwt/v5"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/token"
)

// readTier1 reads a tier-1 token whose signature somebody we trust has checked. Everything else is checked as ever, the pinned algorithm
// included: a token that could not have been ours is not.
func (v *Verifier) readTier1(tok string) (*claims.Tier1, error) {
	c := new(claims.Tier1)
	t, _, err := jwt.NewParser(jwt.WithStrictDecoding()).ParseUnverified(tok, c)
	if err != nil {
		return nil, err
	}
	aud, err := c.GetAudience()
	switch {
	case err != nil:
		return nil, err
	case t.Method.Alg() != jwt.SigningMethodHS256.Alg() || !slices.Equal(aud, jwt.ClaimStrings{claims.AudienceVWR}):
		return nil, token.ErrInvalid
	case !v.now().Before(c.Expiry()):
		return nil, token.ErrExpired
	}
	return c, c.Validate()
}
