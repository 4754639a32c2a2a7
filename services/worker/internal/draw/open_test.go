package draw_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/services/worker/internal/dynamo/drawtest"
)

// A draw opens only with a beacon that publishes rounds, and whose chain has the configured hash.
func TestOpen(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	terms := func(change func(*fairdraw.Commitment)) fairdraw.Commitment {
		p := drawtest.Promotion(t, "promo", cutoff, nil)
		c, _, err := fairdraw.ParseCommitment([]byte(p.Commitment))
		require.NoError(t, err)
		c.StatementKey, c.SeedHash, c.SeedKID, c.Round = fairdraw.Hash{}, fairdraw.Hash{}, "", 0
		if change != nil {
			change(&c)
		}
		return c
	}
	d := w.drawer(w.store)
	text, nonce, err := d.Open(t.Context(), terms(nil))
	require.NoError(t, err)
	c, _, err := fairdraw.ParseCommitment(text)
	require.NoError(t, err)
	seed, ok := w.keys.Keys().Seed(&c, nonce)
	require.True(t, ok)
	require.Equal(t, fairdraw.SeedHash(seed), c.SeedHash)
	other, _, err := d.Open(t.Context(), terms(nil))
	require.NoError(t, err)
	require.False(t, bytes.Equal(text, other), "each draw has a seed of its own")

	for name, change := range map[string]func(*fairdraw.Commitment){
		"rounds of other times": func(c *fairdraw.Commitment) { c.Beacon.Genesis -= 30 * 24 * 3600 },
		"no winners":            func(c *fairdraw.Commitment) { c.Winners = 0 },
	} {
		_, _, err := d.Open(t.Context(), terms(change))
		require.ErrorIs(t, err, errs.ErrInvalidRequest, name)
	}
	w.source.silent = true
	_, _, err = d.Open(t.Context(), terms(nil))
	require.ErrorIs(t, err, errs.ErrBeaconUnavailable, "not opened unchecked")
	_, _, err = d.Open(t.Context(), terms(func(c *fairdraw.Commitment) { c.Beacon = nil }))
	require.NoError(t, err, "a draw without a beacon needs none")
}
