package tokentest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// Forge makes a token with any header and claims.
func Forge(t testing.TB, header map[string]any, claims any, method jwt.SigningMethod, key any) string {
	t.Helper()
	encode := func(v any) string {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signingInput := encode(header) + "." + encode(claims)
	signature, err := method.Sign(signingInput, key)
	require.NoError(t, err)
	return signingInput + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// Forgeries returns forged tokens with these claims, keyed by the kind of forgery. A verifier whose
// only key is secret, with the id kid, must refuse all of them.
func Forgeries(t testing.TB, kid, secret string, claims jwt.Claims) map[string]string {
	t.Helper()
	all := forgeriesByForm(t, kid, secret, claims)
	maps.Copy(all, forgeriesByKey(t, kid, secret, claims))
	maps.Copy(all, forgeriesByAlgorithm(t, kid, secret, claims))
	return all
}

func forgeriesByAlgorithm(t testing.TB, kid, secret string, claims any) map[string]string {
	t.Helper()
	alg := func(name string, method jwt.SigningMethod, key any) string {
		return Forge(t, map[string]any{"alg": name, "kid": kid}, claims, method, key)
	}
	pair, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // signs nothing that counts
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&pair.PublicKey)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return map[string]string{
		"alg none":                         alg("none", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"alg None":                         alg("None", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"alg none with a signature":        alg("none", jwt.SigningMethodHS256, []byte(secret)),
		"alg HS384":                        alg("HS384", jwt.SigningMethodHS384, []byte(secret)),
		"alg HS512":                        alg("HS512", jwt.SigningMethodHS512, []byte(secret)),
		"alg hs256":                        alg("hs256", jwt.SigningMethodHS256, []byte(secret)),
		"alg RS256":                        alg("RS256", jwt.SigningMethodRS256, pair),
		"alg RS256, signed by HS256":       alg("RS256", jwt.SigningMethodHS256, []byte(secret)),
		"alg HS256, signed by RS256":       alg("HS256", jwt.SigningMethodRS256, pair),
		"a public key as the HS256 secret": alg("HS256", jwt.SigningMethodHS256, public),
		"no alg":                           Forge(t, map[string]any{"kid": kid}, claims, jwt.SigningMethodHS256, []byte(secret)),
	}
}

// forgeriesByKey returns tokens that are signed with another key, or do not name the key.
func forgeriesByKey(t testing.TB, kid, secret string, claims any) map[string]string {
	t.Helper()
	other := strings.Repeat("other-key ", 4)
	by := func(key string, header map[string]any) string {
		header["alg"] = "HS256"
		return Forge(t, header, claims, jwt.SigningMethodHS256, []byte(key))
	}
	derived, ok := KeySet(t, kid+":"+secret).Derive("urr/anon").Sum(kid, nil)
	require.True(t, ok)
	return map[string]string{
		"another key":            by(other, map[string]any{"kid": kid}),
		"empty key":              by("", map[string]any{"kid": kid}),
		"a derived value as key": by(string(derived[:]), map[string]any{"kid": kid}),
		"no kid":                 by(secret, map[string]any{}),
		"unknown kid":            by(secret, map[string]any{"kid": "z"}),
		"unknown kid, empty key": by("", map[string]any{"kid": "z"}),
		"kid of a file":          by("", map[string]any{"kid": "../../../../dev/null"}),
		"kid of a removed key":   by(other, map[string]any{"kid": "old"}),
		"kid of another type":    by(secret, map[string]any{"kid": 1}),
		"a key in the header":    by(other, map[string]any{"kid": kid, "jwk": map[string]any{"kty": "oct", "k": base64.RawURLEncoding.EncodeToString([]byte(other))}}),
		"the address of a key":   by(other, map[string]any{"kid": kid, "jku": "https://attacker.example/keys"}),
	}
}

// forgeriesByForm returns malformed texts made of parts of genuine tokens.
func forgeriesByForm(t testing.TB, kid, secret string, claims any) map[string]string {
	t.Helper()
	sign := func(c any) string {
		return Forge(t, map[string]any{"alg": "HS256", "kid": kid}, c, jwt.SigningMethodHS256, []byte(secret))
	}
	genuine := sign(claims)
	text, err := json.Marshal(claims)
	require.NoError(t, err)
	changed := jwt.MapClaims{}
	require.NoError(t, json.Unmarshal(text, &changed))
	changed["jti"] = "another"
	parts, others := strings.Split(genuine, "."), strings.Split(sign(changed), ".")
	return map[string]string{
		"payload of another token":   parts[0] + "." + others[1] + "." + parts[2],
		"signature of another token": parts[0] + "." + parts[1] + "." + others[2],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"two parts":                  parts[0] + "." + parts[1],
		"four parts":                 genuine + "." + parts[2],
		"truncated":                  genuine[:len(genuine)-4],
		"longer":                     genuine + "AAAA",
		"padded":                     genuine + "=",
		"line break in a signature":  genuine[:len(genuine)-9] + "\n" + genuine[len(genuine)-9:],
		"line break at the end":      genuine + "\r\n",
		"an empty header":            "e30" + "." + parts[1] + ".e30",
		"rubbish":                    "rubbish",
	}
}
