package token_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
)

// seed is 32 times the same byte, in base64.
func seed(b byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(b)), ed25519.SeedSize)))
}

func signingKeys(t *testing.T, s string) token.SigningKeys {
	t.Helper()
	k, err := token.ParseSigningKeys(config.Secret(s))
	require.NoError(t, err)
	return k
}

func TestParseSigningKeys(t *testing.T) {
	t.Parallel()
	urlSeed := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", ed25519.SeedSize)))
	for s, want := range map[string]string{
		"a:" + seed('x'):                        "keys(a)",
		seed('x'):                               "keys(1)",
		" a:" + seed('x') + " , b:" + seed('y'): "keys(a,b)",
		"a:" + urlSeed:                          "keys(a)",
		urlSeed:                                 "keys(1)",
		"a:" + base64.URLEncoding.EncodeToString([]byte(strings.Repeat("\xff", ed25519.SeedSize))): "keys(a)",
	} {
		require.Equal(t, want, fmt.Sprintf("%#v", signingKeys(t, s)), s)
	}
	for s, want := range map[string]string{
		"":                                   "no key",
		"a:short":                            "32 bytes",
		"a:" + seed('x')[:40]:                "32 bytes",
		"a b:" + seed('x'):                   "kid",
		":" + seed('x'):                      "kid",
		"a:" + seed('x') + ",a:" + seed('y'): "twice",
		"a:" + seed('x') + "," + seed('y'):   "kid",
	} {
		_, err := token.ParseSigningKeys(config.Secret(s))
		require.ErrorContains(t, err, want, s)
		require.NotContains(t, err.Error(), seed('x'))
	}
}

func TestSigningKeysRotate(t *testing.T) {
	t.Parallel()
	old, both := signingKeys(t, "a:"+seed('x')), signingKeys(t, "b:"+seed('y')+",a:"+seed('x'))
	require.Equal(t, "b", both.Current())
	message := []byte("a message")
	signature := old.Sign(old.Current(), message)
	require.True(t, both.Verify("a", message, signature))
	require.True(t, ed25519.Verify(both.Public("a"), message, signature), "others need the public key only")
	require.False(t, both.Verify("b", message, signature))
	require.False(t, both.Verify("c", message, signature))
	require.False(t, both.Verify("a", []byte("another"), signature))
	require.Nil(t, old.Sign("b", message))
	kid, ok := both.KidOf(old.Public("a"))
	require.True(t, ok)
	require.Equal(t, "a", kid)
	_, ok = old.KidOf(both.Public("b"))
	require.False(t, ok)
	require.Empty(t, token.SigningKeys{}.Current())
	require.False(t, token.SigningKeys{}.Verify("", message, signature))
}
