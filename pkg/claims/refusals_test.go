package claims_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
)

// Services need not test again what the tests of this file and of package token cover.

// Validate refuses incomplete tokens. (TestTokensAreOfTheirKindAndComplete tests Verify.)
func TestIncompleteTokensAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]interface {
		Validate() error
	}{
		"position 0":   claims.NewTier1("demo", "a", "r", 1, 0, now),
		"no round":     claims.NewTier1("demo", "a", "r", 0, 1, now),
		"no visitor":   claims.NewTier1("demo", "", "r", 1, 1, now),
		"no request":   claims.NewTier1("demo", "a", "", 1, 1, now),
		"odd event":    claims.NewTier1("de:mo", "a", "r", 1, 1, now),
		"no slot":      claims.NewEntry("demo", "u", "", 1, now, now),
		"no epoch":     claims.NewEntry("demo", "u", "s", 0, now, now),
		"odd user":     claims.NewEntry("demo", "u#", "s", 1, now, now),
		"nobody":       claims.NewSession("", nil, now, now),
		"tier 2 claim": &claims.Tier1{EventID: "demo", UID: "a", Tier: 2, Position: 1, Round: 1, RequestID: "r"},
	} {
		require.Error(t, c.Validate(), name)
	}
}

// kinds returns a valid payload of each kind of token, and a constructor of its Go type.
func kinds() map[string]struct {
	good      jwt.MapClaims
	newClaims func() jwt.Claims
} {
	exp, iat := float64(now.Add(time.Minute).Unix()), now.Unix()
	return map[string]struct {
		good      jwt.MapClaims
		newClaims func() jwt.Claims
	}{
		claims.AudienceVWR: {
			jwt.MapClaims{"sub": "demo", "uid": "anon", "aud": "vwr", "tier": 1, "pos": 42, "act": 1, "jti": "r", "iat": iat, "exp": exp},
			func() jwt.Claims { return &claims.Tier1{} },
		},
		claims.AudienceEntry: {
			jwt.MapClaims{"sub": "demo", "uid": "bob", "aud": "entry", "jti": "s", "epoch": 1, "end": now.UnixMilli(), "iat": iat, "exp": exp},
			func() jwt.Claims { return &claims.Entry{} },
		},
		claims.AudienceSession: {
			jwt.MapClaims{"sub": "bob", "roles": []string{"admin"}, "jti": "i", "aud": "session", "iat": iat, "exp": exp},
			func() jwt.Claims { return &claims.Session{} },
		},
	}
}

// A token of one kind is never accepted as another, even if its audience is changed; every claim
// must be present with its type.
func TestTokensAreOfTheirKindAndComplete(t *testing.T) {
	t.Parallel()
	k := tokentest.KeySet(t, secret)
	optional := map[string]bool{"iat": true, "roles": true, "aud": true, "exp": true} // token.Sign requires the last two
	for kind, want := range kinds() {
		verify := func(c jwt.MapClaims) error {
			tok, err := k.Sign(c)
			require.NoError(t, err)
			return k.Verify(tok, want.newClaims(), kind, now)
		}
		require.NoError(t, verify(want.good), kind)
		for other, c := range kinds() {
			if other == kind {
				continue
			}
			require.ErrorIs(t, verify(c.good), token.ErrAudience, "%s for %s", other, kind)
			disguised := maps.Clone(c.good)
			disguised["aud"] = kind
			if kind != claims.AudienceSession { // a session needs only a subject and an id
				require.ErrorIs(t, verify(disguised), token.ErrInvalid, "%s that says it is %s", other, kind)
			}
		}
		for member := range want.good {
			if member != "aud" && member != "exp" {
				c := maps.Clone(want.good)
				c[member] = map[string]any{}
				require.ErrorIs(t, verify(c), token.ErrInvalid, "%s with another type of %s", kind, member)
			}
			if !optional[member] {
				c := maps.Clone(want.good)
				delete(c, member)
				require.ErrorIs(t, verify(c), token.ErrInvalid, "%s without %s", kind, member)
			}
		}
	}
}

func TestSubjectsOfAnotherTypeAreRefused(t *testing.T) {
	t.Parallel()
	k := tokentest.KeySet(t, secret)
	for kind, want := range kinds() {
		for _, sub := range []any{7, true, nil, []string{"demo"}, map[string]any{"id": "demo"}} {
			c := maps.Clone(want.good)
			c["sub"] = sub
			tok, err := k.Sign(c)
			require.NoError(t, err)
			require.ErrorIs(t, k.Verify(tok, want.newClaims(), kind, now), token.ErrInvalid, "%s of %v", kind, sub)
		}
	}
}

// mangled returns corrupted variants of a sealed value.
func mangled(s string) map[string]string {
	return map[string]string{
		"cut":        s[:len(s)-4],
		"cut in two": s[:len(s)/2],
		"longer":     s + "AAAA",
		"padded":     s + "=",
		"line break": s[:9] + "\n" + s[9:],
		"empty":      "",
		"huge":       strings.Repeat("A", 4000),
	}
}

func TestVwrTicketIsForOneEventVisitorAndKey(t *testing.T) {
	t.Parallel()
	other := strings.ToUpper(secret)
	macs := tokentest.KeySet(t, "a:"+secret).Derive(claims.LabelVwrTicket)
	rotated := tokentest.KeySet(t, "b:"+other+",a:"+secret).Derive(claims.LabelVwrTicket)
	s := ticket.Seal(macs, "demo", "v1")
	_, err := claims.OpenVwrTicket(rotated, "demo", "v1", s)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		macs           token.MACSet
		event, visitor string
	}{
		"other event":    {macs, "demo2", "v1"},
		"other visitor":  {macs, "demo", "v2"},
		"long event":     {macs, strings.Repeat("e", 256+4), "v1"},
		"other label":    {tokentest.KeySet(t, "a:"+secret).Derive(claims.LabelAnon), "demo", "v1"},
		"other key":      {tokentest.KeySet(t, "a:"+other).Derive(claims.LabelVwrTicket), "demo", "v1"},
		"key is removed": {tokentest.KeySet(t, "b:"+other).Derive(claims.LabelVwrTicket), "demo", "v1"},
		"no key":         {token.KeySet{}.Derive(claims.LabelVwrTicket), "demo", "v1"},
	} {
		_, err := claims.OpenVwrTicket(tc.macs, tc.event, tc.visitor, s)
		require.ErrorIs(t, err, claims.ErrForged, name)
	}
	for name, s := range mangled(s) {
		_, err := claims.OpenVwrTicket(macs, "demo", "v1", s)
		require.ErrorIs(t, err, claims.ErrForged, name)
	}
	_, err = claims.OpenVwrTicket(macs, "demo", "v1", claims.NewAnon(now).Seal(macs))
	require.ErrorIs(t, err, claims.ErrForged, "one kind is never taken for another")
	require.Empty(t, ticket.Seal(token.KeySet{}.Derive("x"), "demo", "v1"))
	require.Empty(t, ticket.Seal(macs, strings.Repeat("e", 65), "v1"))
}

func TestAnonIsForOneKey(t *testing.T) {
	t.Parallel()
	other := strings.ToUpper(secret)
	macs := tokentest.KeySet(t, "a:"+secret).Derive(claims.LabelAnon)
	s := claims.NewAnon(now).Seal(macs)
	_, err := claims.OpenAnon(tokentest.KeySet(t, "b:"+other+",a:"+secret).Derive(claims.LabelAnon), s)
	require.NoError(t, err)
	for name, macs := range map[string]token.MACSet{
		"other label":    tokentest.KeySet(t, "a:"+secret).Derive(claims.LabelVwrTicket),
		"other key":      tokentest.KeySet(t, "a:"+other).Derive(claims.LabelAnon),
		"key is removed": tokentest.KeySet(t, "b:"+other).Derive(claims.LabelAnon),
		"no key":         token.KeySet{}.Derive(claims.LabelAnon),
	} {
		_, err := claims.OpenAnon(macs, s)
		require.ErrorIs(t, err, claims.ErrForged, name)
	}
	for name, s := range mangled(s) {
		_, err := claims.OpenAnon(macs, s)
		require.ErrorIs(t, err, claims.ErrForged, name)
	}
	_, err = claims.OpenAnon(macs, ticket.Seal(macs, "demo", "v"))
	require.ErrorIs(t, err, claims.ErrForged, "one kind is never taken for another")
}
