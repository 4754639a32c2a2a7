package fairdraw_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
)

func TestCommitmentText(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil)
	var loose map[string]any
	require.NoError(t, json.Unmarshal(d.text, &loose))
	require.True(t, strings.HasPrefix(string(d.text), `{"algorithm":"urr/draw/1","announcedAt":1793538000000,"beacon":{"beaconId":"urr-development","chainHash":"`), "%s", d.text)
	require.Equal(t, fairdraw.Hash(sha256.Sum256(d.text)), d.hash)
	parsed, hash, err := fairdraw.ParseCommitment(d.text)
	require.NoError(t, err)
	require.Equal(t, d.commitment, parsed)
	require.Equal(t, d.hash, hash)
}

// Each content has only one accepted text, so that nobody can read a signed text in two ways.
func TestCommitmentHasOneText(t *testing.T) {
	t.Parallel()
	d := newDraw(t, fairdraw.AlgorithmDraw, nil)
	text := string(d.text)
	for name, other := range map[string]string{
		"white space":       text + "\n",
		"a space inside":    strings.Replace(text, ":", ": ", 1),
		"another order":     `{"winners":3,` + strings.Replace(text[1:], `,"winners":3`, "", 1),
		"an unknown member": strings.Replace(text, `"winners":3`, `"winners":3,"x":1`, 1),
		"a repeated member": strings.Replace(text, `"winners":3`, `"winners":2,"winners":3`, 1),
		"another number":    strings.Replace(text, `"winners":3`, `"winners":3.0`, 1),
		"an escape":         strings.Replace(text, "promo-1", `promo\u002d1`, 1),
		"upper-case hex":    strings.Replace(text, d.commitment.SeedHash.String(), strings.ToUpper(d.commitment.SeedHash.String()), 1),
		"two documents":     text + text,
		"nothing":           "",
		"null":              "null",
	} {
		require.NotEqual(t, text, other, name)
		_, _, err := fairdraw.ParseCommitment([]byte(other))
		require.Error(t, err, name)
	}
}

func TestCommitmentRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fairdraw.Commitment){
		"algorithm":              func(c *fairdraw.Commitment) { c.Algorithm = "urr/draw/2" },
		"event":                  func(c *fairdraw.Commitment) { c.EventID = "a b" },
		"no winners":             func(c *fairdraw.Commitment) { c.Winners = 0 },
		"too many winners":       func(c *fairdraw.Commitment) { c.Winners = 10_000_001 },
		"winners of a shuffle":   func(c *fairdraw.Commitment) { c.Algorithm = fairdraw.AlgorithmShuffle },
		"no cutoff":              func(c *fairdraw.Commitment) { c.CutoffAt = 0 },
		"announced too early":    func(c *fairdraw.Commitment) { c.AnnouncedAt = c.CutoffAt + 599_999 },
		"announced too late":     func(c *fairdraw.Commitment) { c.AnnouncedAt = 253402300800000 },
		"signing key 0":          func(c *fairdraw.Commitment) { c.StatementKey = fairdraw.Hash{} },
		"signing key 1, negated": func(c *fairdraw.Commitment) { c.StatementKey = fairdraw.Hash{0: 1, 31: 0x80} },
		"signing key too large":  func(c *fairdraw.Commitment) { c.ReceiptKey = fairdraw.Hash(bytes.Repeat([]byte{0xff}, 32)) },
		"one key for both":       func(c *fairdraw.Commitment) { c.ReceiptKey = c.StatementKey },
		"another genesis":        func(c *fairdraw.Commitment) { c.Beacon.Genesis += 30 * 24 * 3600 },
		"no kid":                 func(c *fairdraw.Commitment) { c.SeedKID = "" },
		"scheme":                 func(c *fairdraw.Commitment) { c.Beacon.Scheme = "pedersen-bls-chained" },
		"chain hash":             func(c *fairdraw.Commitment) { c.Beacon.ChainHash = "AB" },
		"key not on the curve":   func(c *fairdraw.Commitment) { c.Beacon.PublicKey = strings.Repeat("a", 192) },
		"key at infinity":        func(c *fairdraw.Commitment) { c.Beacon.PublicKey = "c0" + strings.Repeat("0", 190) },
		"no period":              func(c *fairdraw.Commitment) { c.Beacon.Period = 0 },
		"short delay":            func(c *fairdraw.Commitment) { c.Beacon.DelaySeconds = 2 },
		"delay below the period": func(c *fairdraw.Commitment) { c.Beacon.Period = 601 },
		"long delay":             func(c *fairdraw.Commitment) { c.Beacon.DelaySeconds = 1 << 62 },
	} {
		c := newDraw(t, fairdraw.AlgorithmDraw, nil).commitment
		terms := *c.Beacon
		c.Beacon = &terms
		change(&c)
		_, _, err := c.Seal()
		require.Error(t, err, name)
	}
	c := newDraw(t, fairdraw.AlgorithmDraw, nil).commitment
	c.Round++
	require.ErrorContains(t, c.Validate(), "the round must be")
}

func TestRounds(t *testing.T) {
	t.Parallel()
	c := newDraw(t, fairdraw.AlgorithmDraw, func(c *fairdraw.Commitment) { c.CutoffAt++ }).commitment
	first := c.Beacon.TimeOf(c.Round)
	require.False(t, first.Before(c.Cutoff().Add(10*time.Minute)))
	require.Less(t, first.Sub(c.Cutoff()), 10*time.Minute+3*time.Second)
	for name, tc := range map[string]struct {
		at     time.Time
		missed int64
	}{
		"at the cutoff":                  {c.Cutoff(), 0},
		"a minute before":                {first.Add(-time.Minute), 0},
		"less than a minute before":      {first.Add(-time.Minute + time.Millisecond), 1},
		"after the round":                {first.Add(time.Second), 1},
		"a minute before the second":     {c.Cutoff().Add(19 * time.Minute), 1},
		"much later":                     {c.Cutoff().Add(100 * time.Minute), 10},
		"a year later":                   {c.Cutoff().Add(365 * 24 * time.Hour), 52560},
		"long before, as a skewed claim": {c.Cutoff().Add(-time.Hour), 0},
	} {
		round, missed := c.RoundFor(tc.at)
		require.Equal(t, tc.missed, missed, name)
		require.Equal(t, c.Beacon.FirstAt(c.Cutoff().Add(time.Duration(missed+1)*10*time.Minute)), round, name)
		require.False(t, c.Beacon.TimeOf(round).Before(tc.at.Add(time.Minute)), name)
	}
	zero := c.ZeroSeedRound(c.Round)
	require.False(t, c.Beacon.TimeOf(zero).Before(c.Announced().Add(24*time.Hour)))
	require.True(t, c.Beacon.TimeOf(zero-1).Before(c.Announced().Add(24*time.Hour)))
	late := c.Beacon.FirstAt(c.Announced().Add(time.Hour))
	require.Equal(t, c.Beacon.FirstAt(c.Beacon.TimeOf(late).Add(24*time.Hour)), c.ZeroSeedRound(late), "a root after the announcement")
}
