package idempotency_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
)

func TestNew(t *testing.T) {
	t.Parallel()
	none, err := idempotency.New("u", "r", "", "body")
	require.NoError(t, err)
	require.Nil(t, none)
	for _, bad := range []string{strings.Repeat("k", 256), "tab\t", "ü", "\x7f"} {
		_, err := idempotency.New("u", "r", bad)
		require.ErrorIs(t, err, idempotency.ErrInvalid, bad)
	}
	_, err = idempotency.New("u", "r", strings.Repeat("k", 255))
	require.NoError(t, err)
}

func TestRequire(t *testing.T) {
	t.Parallel()
	_, err := idempotency.Require("u", "r", "", "body")
	require.ErrorIs(t, err, idempotency.ErrRequired)
	_, err = idempotency.Require("u", "r", "ключ")
	require.ErrorIs(t, err, idempotency.ErrInvalid)
	required, err := idempotency.Require("u", "r", "k", "body")
	require.NoError(t, err)
	optional, err := idempotency.New("u", "r", "k", "body")
	require.NoError(t, err)
	require.Equal(t, optional, required)
}

func TestKeysAndFingerprintsDoNotCollide(t *testing.T) {
	t.Parallel()
	newKey := func(user, route, key string, parts ...string) *idempotency.Key {
		k, err := idempotency.New(user, route, key, parts...)
		require.NoError(t, err)
		return k
	}
	base := newKey("u", "r", "k", "ab", "c")
	require.Equal(t, base, newKey("u", "r", "k", "ab", "c"))
	require.Equal(t, base.AdvisoryLock(), newKey("u", "r", "k", "other").AdvisoryLock(), "the lock is the key's, whatever is asked")
	for _, other := range []*idempotency.Key{newKey("ur", "", "k"), newKey("u", "rk", ""+"x"), newKey("v", "r", "k"), newKey("u", "s", "k"), newKey("u", "r", "l")} {
		require.NotEqual(t, base.AdvisoryLock(), other.AdvisoryLock())
	}
	for _, other := range []*idempotency.Key{newKey("u", "r", "k", "a", "bc"), newKey("u", "r", "k", "abc"), newKey("u", "r", "k", "ab", "c", "")} {
		require.NotEqual(t, base.Fingerprint, other.Fingerprint)
	}
}
