package token_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
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

func TestSignVerify(t *testing.T) {
	t.Parallel()
	old, rotated := keys(t, "a:"+secretA), keys(t, "b:"+secretB+",a:"+secretA)
	tok, err := old.Sign(claimsUntil(now.Add(time.Minute)))
	require.NoError(t, err)

	verify := func(k token.KeySet, tok, aud string, at time.Time) error {
		return k.Verify(tok, jwt.MapClaims{}, aud, at)
	}
	require.NoError(t, verify(old, tok, "entry", now))
	require.NoError(t, verify(rotated, tok, "entry", now), "all keys verify")
	require.NoError(t, verify(rotated, tok, "entry", now.Add(59*time.Second)))
	require.ErrorIs(t, verify(rotated, tok, "entry", now.Add(60*time.Second)), token.ErrExpired)
	require.ErrorIs(t, verify(rotated, tok, "vwr", now), token.ErrAudience)
	require.ErrorIs(t, verify(rotated, tok, "vwr", now.Add(time.Hour)), token.ErrAudience)
	require.ErrorIs(t, verify(keys(t, "b:"+secretB), tok, "entry", now), token.ErrInvalid, "the key is gone")
	require.ErrorIs(t, verify(keys(t, "a:"+secretB), tok, "entry", now), token.ErrInvalid, "same kid, other secret")
	require.ErrorIs(t, verify(token.KeySet{}, tok, "entry", now), token.ErrInvalid)
	require.ErrorIs(t, verify(old, strings.Repeat("x", 5000), "entry", now), token.ErrInvalid)

	fresh, err := rotated.Sign(claimsUntil(now.Add(time.Minute)))
	require.NoError(t, err)
	require.ErrorIs(t, verify(old, fresh, "entry", now), token.ErrInvalid, "the first key signs")
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

// Every way around the pinned algorithm that is known for JWTs.
func TestVerifyRefusesForgeries(t *testing.T) {
	t.Parallel()
	k := keys(t, "a:"+secretA)
	part := func(v any) string {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	body := part(claimsUntil(now.Add(time.Minute)))
	sign := func(header map[string]any, method jwt.SigningMethod, key any) string {
		head := part(header) + "." + body
		sig, err := method.Sign(head, key)
		require.NoError(t, err)
		return head + "." + base64.RawURLEncoding.EncodeToString(sig)
	}
	for name, tok := range map[string]string{
		"alg none":       part(map[string]any{"alg": "none", "kid": "a"}) + "." + body + ".",
		"HS512":          sign(map[string]any{"alg": "HS512", "kid": "a"}, jwt.SigningMethodHS512, []byte(secretA)),
		"no kid":         sign(map[string]any{"alg": "HS256"}, jwt.SigningMethodHS256, []byte(secretA)),
		"unknown kid":    sign(map[string]any{"alg": "HS256", "kid": "z"}, jwt.SigningMethodHS256, []byte(secretA)),
		"kid no string":  sign(map[string]any{"alg": "HS256", "kid": 1}, jwt.SigningMethodHS256, []byte(secretA)),
		"empty secret":   sign(map[string]any{"alg": "HS256", "kid": "z"}, jwt.SigningMethodHS256, []byte("")),
		"two parts":      part(map[string]any{"alg": "HS256"}) + "." + body,
		"empty":          "",
		"crit extension": "e30." + body + ".e30",
	} {
		require.ErrorIs(t, k.Verify(tok, jwt.MapClaims{}, "entry", now), token.ErrInvalid, name)
	}
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
