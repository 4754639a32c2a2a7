package token

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Errors of Verify. The gateway treats them alike; logs and metrics distinguish them.
var (
	ErrExpired  = errors.New("token: expired")
	ErrAudience = errors.New("token: made for another audience")
	ErrInvalid  = errors.New("token: not valid")
)

// maxToken is the largest token that Verify reads, in bytes; ours are below 700.
const maxToken = 4096

// Sign makes a JWT of claims with the first key of the set. The claims exp and aud must be set.
func (k KeySet) Sign(claims jwt.Claims) (string, error) {
	if len(k.keyList) == 0 {
		return "", errors.New("token: no key to sign with")
	}
	if exp, err := claims.GetExpirationTime(); err != nil || exp == nil {
		return "", errors.New("token: refusing to sign claims without exp")
	}
	if aud, err := claims.GetAudience(); err != nil || len(aud) != 1 || aud[0] == "" {
		return "", errors.New("token: refusing to sign claims without exactly one aud")
	}
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	first := k.keyList[0]
	t.Header["kid"] = first.kid
	s, err := t.SignedString(first.key)
	if err != nil {
		return "", fmt.Errorf("token: sign: %w", err)
	}
	return s, nil
}

// Verify checks the signature, the algorithm (HS256 only), kid and aud, and exp against now without
// leeway. It fills claims, a pointer. It fails with ErrExpired, ErrAudience or ErrInvalid; claims
// must not be used then.
func (k KeySet) Verify(tok string, claims jwt.Claims, aud string, now time.Time) error {
	// The base64 decoder skips line breaks, so one signature would have many forms.
	if len(tok) > maxToken || strings.ContainsAny(tok, "\r\n") {
		return ErrInvalid
	}
	p := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithAudience(aud),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
	)
	_, err := p.ParseWithClaims(tok, claims, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		if secret, ok := k.findKey(kid); ok {
			return secret, nil
		}
		return nil, fmt.Errorf("no key %q", kid)
	})
	return refusal(err)
}

// Read fills claims, a pointer, from a token whose text its caller has authenticated by other means
// than its signature, which Read ignores. Otherwise it checks what Verify does, with its errors.
func Read(tok string, claims jwt.Claims, aud string, now time.Time) error {
	if len(tok) > maxToken {
		return ErrInvalid
	}
	if _, _, err := jwt.NewParser(jwt.WithStrictDecoding()).ParseUnverified(tok, claims); err != nil {
		return refusal(err)
	}
	return refusal(jwt.NewValidator(
		jwt.WithAudience(aud), jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return now }),
	).Validate(claims))
}

// refusal returns the error of Verify for one of the library's, nil for nil.
func refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenInvalidAudience):
		return ErrExpired
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return ErrAudience
	default:
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
}
