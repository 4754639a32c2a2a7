package token_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
)

// A seed is read in both alphabets of base64, with and without padding.
func TestParseSeeds(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte{0xff}, ed25519.SeedSize) // encoded differently in both alphabets
	want := ed25519.NewKeyFromSeed(raw).Public()
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		keys := tokentest.SigningKeys(t, "a:"+encoding.EncodeToString(raw))
		require.Equal(t, want, keys.Public("a"))
	}
	for _, bad := range []string{"a:short", "a:" + tokentest.Seed('x')[:40], "a:" + tokentest.Seed('x') + "AAAA", "a:" + tokentest.Seed('x')[:42] + "!"} {
		_, err := token.ParseSigningKeys(config.Secret(bad))
		require.ErrorContains(t, err, "key a: the seed must be 32 bytes in base64", bad)
	}
}

func TestSigningKeysRotate(t *testing.T) {
	t.Parallel()
	old, both := tokentest.SigningKeys(t, "a:"+tokentest.Seed('x')), tokentest.SigningKeys(t, "b:"+tokentest.Seed('y')+",a:"+tokentest.Seed('x'))
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
