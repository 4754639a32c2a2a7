package token_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
)

const (
	secretA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	secretB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// Secrets and seeds have the same format, and errors never contain one.
func TestParse(t *testing.T) {
	t.Parallel()
	for kind, tc := range map[string]struct {
		noun, a, b string
		parse      func(config.Secret) (fmt.Stringer, error)
	}{
		"secrets": {noun: "secret", a: secretA, b: secretB, parse: func(s config.Secret) (fmt.Stringer, error) { return token.ParseKeySet(s) }},
		"seeds": {noun: "seed", a: tokentest.Seed('a'), b: tokentest.Seed('b'), parse: func(s config.Secret) (fmt.Stringer, error) {
			return token.ParseSigningKeys(s)
		}},
	} {
		const kid31 = "k23456789_123456789-123456789_1"
		for in, want := range map[string]string{
			tc.a:                              "keys(1)",
			"k1:" + tc.a:                      "keys(k1)",
			" new:" + tc.a + " , old:" + tc.b: "keys(new,old)",
			kid31 + "2:" + tc.a:               "keys(" + kid31 + "2)",
		} {
			set, err := tc.parse(config.Secret(in))
			require.NoError(t, err, "%s: %s", kind, in)
			require.Equal(t, want, fmt.Sprint(set), kind)
			require.Equal(t, want, fmt.Sprintf("%#v", set), kind)
		}
		form := ": must be kid:" + tc.noun + ", the kid 1–32 of [A-Za-z0-9_-]"
		for in, want := range map[string]string{
			"  ":                                   "no key: must be kid:" + tc.noun + "[,kid:" + tc.noun + "…]",
			"hunter2":                              "key 1: the " + tc.noun + " ",
			"k:" + tc.a[1:]:                        "key k: the " + tc.noun + " ",
			"k:" + tc.a + ",k:" + tc.b:             "key k is there twice",
			":" + tc.a:                             "key 1" + form,
			"k!:" + tc.a:                           "key 1" + form,
			kid31 + "23:" + tc.a:                   "key 1" + form,
			"k:" + tc.a + ",":                      "key 2" + form,
			"k:" + tc.a + "," + tc.b:               "key 2" + form,
			"k:" + tc.a + ",hunter2":               "key 2" + form,
			"k:" + tc.a + ",hunter2:" + tc.b + ",": "key 3" + form,
		} {
			_, err := tc.parse(config.Secret(in))
			require.ErrorContains(t, err, want, "%s: %s", kind, in)
			for _, part := range []string{tc.a[1:], tc.b, "hunter2"} {
				require.NotContains(t, err.Error(), part, kind)
			}
		}
	}
}

func TestParseSecrets(t *testing.T) {
	t.Parallel()
	require.Equal(t, "keys(k)", tokentest.KeySet(t, "k:"+secretA+":x").String(), "a secret may contain colons")
	_, err := token.ParseKeySet(config.Secret("k:" + secretA[1:]))
	require.ErrorContains(t, err, "key k: the secret has 31 bytes, at least 32 are needed")
}

var now = time.Date(2026, 1, 31, 20, 0, 0, 0, time.UTC)

func claimsUntil(exp time.Time) jwt.MapClaims {
	return jwt.MapClaims{"sub": "demo", "aud": "entry", "exp": float64(exp.Unix())}
}

// Every key of a set verifies, the first one signs, and a token is valid until the second of its
// exp.
func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	old, rotated := tokentest.KeySet(t, "a:"+secretA), tokentest.KeySet(t, "b:"+secretB+",a:"+secretA)
	tok, err := old.Sign(claimsUntil(now.Add(time.Minute)))
	require.NoError(t, err)
	fresh, err := rotated.Sign(claimsUntil(now.Add(time.Minute)))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		keys token.KeySet
		tok  string
		at   time.Time
	}{
		"its own key":         {old, tok, now},
		"a key behind others": {rotated, tok, now},
		"the first key":       {rotated, fresh, now},
		"the first key alone": {tokentest.KeySet(t, "b:"+secretB), fresh, now},
		"the last second":     {old, tok, now.Add(59 * time.Second)},
	} {
		got := jwt.MapClaims{}
		require.NoError(t, tc.keys.Verify(tc.tok, got, "entry", tc.at), name)
		require.Empty(t, cmp.Diff(claimsUntil(now.Add(time.Minute)), got), name)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	k := tokentest.KeySet(t, secretA)
	for name, c := range map[string]jwt.MapClaims{
		"no exp":  {"aud": "entry"},
		"no aud":  {"exp": float64(now.Unix())},
		"two aud": {"exp": float64(now.Unix()), "aud": []string{"entry", "vwr"}},
	} {
		_, err := k.Sign(c)
		require.Error(t, err, name)
	}
	_, err := token.KeySet{}.Sign(claimsUntil(now))
	require.ErrorContains(t, err, "no key")
}

// signed makes a token of claims that Sign may refuse.
func signed(t *testing.T, claims any) string {
	t.Helper()
	return tokentest.Forge(t, map[string]any{"alg": "HS256", "kid": "a"}, claims, jwt.SigningMethodHS256, []byte(secretA))
}

// requireRefused fails unless every token is refused with want, and with ErrInvalid when there is
// no key at all. Other packages need not repeat these cases.
func requireRefused(t *testing.T, want error, tokens map[string]string) {
	t.Helper()
	k := tokentest.KeySet(t, "a:"+secretA)
	for name, tok := range tokens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, k.Verify(tok, &jwt.RegisteredClaims{}, "entry", now), want)
			require.ErrorIs(t, token.KeySet{}.Verify(tok, &jwt.RegisteredClaims{}, "entry", now), token.ErrInvalid, "without any key")
		})
	}
}

// claimsWith returns valid claims with one changed, or removed when value is nil.
func claimsWith(name string, value any) jwt.MapClaims {
	c := claimsUntil(now.Add(time.Minute))
	if c[name] = value; value == nil {
		delete(c, name)
	}
	return c
}

func TestVerifyRefusesClaims(t *testing.T) {
	t.Parallel()
	genuine := signed(t, claimsUntil(now.Add(time.Minute)))
	require.NoError(t, tokentest.KeySet(t, "a:"+secretA).Verify(genuine, jwt.MapClaims{}, "entry", now))
	requireRefused(t, token.ErrExpired, map[string]string{"expired": signed(t, claimsUntil(now))})
	requireRefused(t, token.ErrAudience, map[string]string{
		"another audience":             signed(t, claimsWith("aud", "vwr")),
		"expired, of another audience": signed(t, jwt.MapClaims{"aud": "vwr", "exp": 1}),
	})
	requireRefused(t, token.ErrInvalid, map[string]string{
		"not yet valid":            signed(t, claimsWith("nbf", now.Add(time.Second).Unix())),
		"no exp":                   signed(t, claimsWith("exp", nil)),
		"exp of another type":      signed(t, claimsWith("exp", "tomorrow")),
		"no audience":              signed(t, claimsWith("aud", nil)),
		"audience of another type": signed(t, claimsWith("aud", 7)),
		"subject of another type":  signed(t, claimsWith("sub", 7)),
		"claims of another type":   signed(t, []string{"aud", "entry"}),
		"oversized":                signed(t, claimsWith("sub", strings.Repeat("x", 4096))),
	})
}

func TestVerifyRefusesForgeries(t *testing.T) {
	t.Parallel()
	all := tokentest.Forgeries(t, "a", secretA, claimsUntil(now.Add(time.Minute)))
	all["empty"] = ""
	requireRefused(t, token.ErrInvalid, all)
}

func TestNoFlippedBitVerifies(t *testing.T) {
	t.Parallel()
	k := tokentest.KeySet(t, "a:"+secretA)
	tok, err := k.Sign(claimsUntil(now.Add(time.Minute)))
	require.NoError(t, err)
	for i := range len(tok) * 8 {
		b := []byte(tok)
		b[i/8] ^= 1 << (i % 8)
		require.Error(t, k.Verify(string(b), jwt.MapClaims{}, "entry", now), "bit %d", i)
	}
}

func TestMACs(t *testing.T) {
	t.Parallel()
	a := tokentest.KeySet(t, "a:"+secretA).Derive("urr/one")
	rotated := tokentest.KeySet(t, "b:"+secretB+",a:"+secretA).Derive("urr/one")
	other := tokentest.KeySet(t, "a:"+secretA).Derive("urr/two")

	sum, ok := a.Sum("a", []byte("x"), []byte("y"))
	require.True(t, ok)
	again, _ := a.Sum("a", []byte("xy"))
	require.Equal(t, sum, again, "the same bytes in other parts")
	require.Equal(t, "a", a.Current())
	require.Equal(t, "b", rotated.Current())
	require.True(t, rotated.Verify("a", sum[:], []byte("xy")))
	require.True(t, a.Verify("a", sum[:16], []byte("xy")))
	require.False(t, a.Verify("a", sum[:15], []byte("xy")), "too short to trust")
	require.False(t, a.Verify("a", append(sum[:], 0), []byte("xy")))
	require.False(t, a.Verify("a", nil, []byte("xy")))
	require.False(t, a.Verify("b", sum[:], []byte("xy")))
	require.False(t, rotated.Verify("b", sum[:], []byte("xy")))
	require.False(t, other.Verify("a", sum[:], []byte("xy")), "labels separate")
	require.False(t, a.Verify("a", sum[:], []byte("xz")))

	_, ok = a.Sum("none", []byte("x"))
	require.False(t, ok)
	require.Empty(t, token.KeySet{}.Derive("x").Current())
}
