// Package tokentest makes key sets for tests.
package tokentest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
)

// KeySet parses the keys of a set, in the form of token.ParseKeySet.
func KeySet(t testing.TB, keys string) token.KeySet {
	t.Helper()
	set, err := token.ParseKeySet(config.Secret(keys))
	require.NoError(t, err)
	return set
}

// SigningKeys parses the keys of a set, in the form of token.ParseSigningKeys.
func SigningKeys(t testing.TB, keys string) token.SigningKeys {
	t.Helper()
	set, err := token.ParseSigningKeys(config.Secret(keys))
	require.NoError(t, err)
	return set
}

// Seed returns the seed of a signing key, made of one repeated byte, in the form of
// token.ParseSigningKeys.
func Seed(fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, ed25519.SeedSize))
}
