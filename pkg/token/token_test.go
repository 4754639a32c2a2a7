package token_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
)

const (
	secretA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	secretB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func keys(t *testing.T, s string) token.KeySet {
	t.Helper()
	k, err := token.ParseKeySet(config.Secret(s))
	require.NoError(t, err)
	return k
}

func TestParseKeySet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want, err string }{
		"bare value":      {in: secretA, want: "keys(1)"},
		"one":             {in: "k1:" + secretA, want: "keys(k1)"},
		"two":             {in: "new:" + secretA + ", old:" + secretB, want: "keys(new,old)"},
		"colon in secret": {in: "k:" + secretA + ":x", want: "keys(k)"},
		"empty":           {in: "  ", err: "no key"},
		"short":           {in: "k:" + secretA[1:], err: "key k: the secret has 31 bytes, at least 32 are needed"},
		"short and bare":  {in: "hunter2", err: "at least 32"},
		"twice":           {in: "k:" + secretA + ",k:" + secretB, err: "key k is there twice"},
		"no kid":          {in: ":" + secretA, err: "key 1: must be kid:secret"},
		"odd kid":         {in: "k!:" + secretA, err: "key 1: must be kid:secret"},
		"long kid":        {in: strings.Repeat("k", 33) + ":" + secretA, err: "key 1: must be kid:secret"},
		"trailing comma":  {in: "k:" + secretA + ",", err: "key 2: must be kid:secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := token.ParseKeySet(config.Secret(tc.in))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.NotContains(t, err.Error(), secretA[1:])
				require.NotContains(t, err.Error(), "hunter2")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, k.String())
			require.Equal(t, tc.want, k.GoString())
		})
	}
}

var now = time.Date(2026, 1, 31, 20, 0, 0, 0, time.UTC)

func claimsUntil(exp time.Time) jwt.MapClaims {
	return jwt.MapClaims{"sub": "demo", "aud": "entry", "exp": float64(exp.Unix())}
}

// Every key of a set verifies, the first one signs, and a token is valid until the second of its
// exp.
func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	old, rotated := keys(t, "a:"+secretA), keys(t, "b:"+secretB+",a:"+secretA)
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
		"the first key alone": {keys(t, "b:"+secretB), fresh, now},
		"the last second":     {old, tok, now.Add(59 * time.Second)},
	} {
		got := jwt.MapClaims{}
		require.NoError(t, tc.keys.Verify(tc.tok, got, "entry", tc.at), name)
		require.Empty(t, cmp.Diff(claimsUntil(now.Add(time.Minute)), got), name)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	k := keys(t, secretA)
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

// forge makes a token of any header and claims.
func forge(t *testing.T, header map[string]any, claims any, method jwt.SigningMethod, key any) string {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	head := part(header) + "." + part(claims)
	sig, err := method.Sign(head, key)
	require.NoError(t, err)
	return head + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// signed makes a token of claims that Sign may refuse.
func signed(t *testing.T, claims any) string {
	t.Helper()
	return forge(t, map[string]any{"alg": "HS256", "kid": "a"}, claims, jwt.SigningMethodHS256, []byte(secretA))
}

// requireRefused fails unless every token is refused with want, and with ErrInvalid when there is
// no key at all. Other packages need not repeat these cases.
func requireRefused(t *testing.T, want error, tokens map[string]string) {
	t.Helper()
	k := keys(t, "a:"+secretA)
	for name, tok := range tokens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, k.Verify(tok, &jwt.RegisteredClaims{}, "entry", now), want)
			require.ErrorIs(t, token.KeySet{}.Verify(tok, &jwt.RegisteredClaims{}, "entry", now), token.ErrInvalid, "without any key")
		})
	}
}

// claimsWith are valid claims with one changed, removed when value is nil.
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
	require.NoError(t, keys(t, "a:"+secretA).Verify(genuine, jwt.MapClaims{}, "entry", now))
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

func TestVerifyRefusesKeysAndAlgorithms(t *testing.T) {
	t.Parallel()
	good := claimsUntil(now.Add(time.Minute))
	alg := func(name string, method jwt.SigningMethod, key any) string {
		return forge(t, map[string]any{"alg": name, "kid": "a"}, good, method, key)
	}
	kid := func(header map[string]any, key string) string {
		header["alg"] = "HS256"
		return forge(t, header, good, jwt.SigningMethodHS256, []byte(key))
	}
	secretRSA, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	removed, err := keys(t, "old:"+secretB).Sign(good)
	require.NoError(t, err)
	requireRefused(t, token.ErrInvalid, map[string]string{
		"another key":                kid(map[string]any{"kid": "a"}, secretB),
		"empty key":                  kid(map[string]any{"kid": "a"}, ""),
		"no kid":                     kid(map[string]any{}, secretA),
		"unknown kid":                kid(map[string]any{"kid": "z"}, secretA),
		"unknown kid, empty key":     kid(map[string]any{"kid": "z"}, ""),
		"kid of a removed key":       removed,
		"kid of another type":        kid(map[string]any{"kid": 1}, secretA),
		"alg none":                   alg("none", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"alg None":                   alg("None", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"alg none with a signature":  alg("none", jwt.SigningMethodHS256, []byte(secretA)),
		"alg HS512":                  alg("HS512", jwt.SigningMethodHS512, []byte(secretA)),
		"alg RS256":                  alg("RS256", jwt.SigningMethodRS256, secretRSA),
		"alg RS256, signed by HS256": alg("RS256", jwt.SigningMethodHS256, []byte(secretA)),
		"no alg":                     forge(t, map[string]any{"kid": "a"}, good, jwt.SigningMethodHS256, []byte(secretA)),
	})
}

func TestVerifyRefusesForms(t *testing.T) {
	t.Parallel()
	genuine, late := signed(t, claimsUntil(now.Add(time.Minute))), signed(t, claimsUntil(now))
	parts := strings.Split(genuine, ".")
	requireRefused(t, token.ErrInvalid, map[string]string{
		"payload of another token":   parts[0] + "." + strings.Split(late, ".")[1] + "." + parts[2],
		"signature of another token": parts[0] + "." + parts[1] + "." + strings.Split(late, ".")[2],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"two parts":                  parts[0] + "." + parts[1],
		"four parts":                 genuine + "." + parts[2],
		"truncated":                  genuine[:len(genuine)-4],
		"longer":                     genuine + "AAAA",
		"padded":                     genuine + "=",
		"an empty header":            "e30" + "." + parts[1] + ".e30",
		"rubbish":                    "rubbish",
		"empty":                      "",
	})
}

func TestNoFlippedBitVerifies(t *testing.T) {
	t.Parallel()
	k := keys(t, "a:"+secretA)
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
	a := keys(t, "a:"+secretA).Derive("urr/one")
	rotated := keys(t, "b:"+secretB+",a:"+secretA).Derive("urr/one")
	other := keys(t, "a:"+secretA).Derive("urr/two")

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
