package beacon_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw/beacon"
)

// network is one of drand's networks, with rounds that it published.
type network struct {
	Name   string
	Info   beacon.Info
	Rounds []beacon.Round
}

// published returns drand's quicknet and its test network, which use different schemes.
func published(t *testing.T) []network {
	t.Helper()
	raw, err := os.ReadFile("testdata/drand.json")
	require.NoError(t, err)
	var networks []network
	require.NoError(t, json.Unmarshal(raw, &networks))
	require.Len(t, networks, 2)
	return networks
}

func TestPublishedRoundsVerify(t *testing.T) {
	t.Parallel()
	require.Equal(t, beacon.Quicknet(), published(t)[0].Info.Chain())
	for _, n := range published(t) {
		require.NoError(t, n.Info.Chain().Validate(), n.Name)
		for _, r := range n.Rounds {
			require.NoError(t, n.Info.Chain().Verify(r), n.Name)
		}
	}
}

// Hash returns the hash that drand's networks publish, and covers the times of the rounds.
func TestChainHash(t *testing.T) {
	t.Parallel()
	require.Equal(t, "drand quicknet", beacon.Quicknet().Network())
	for _, n := range published(t) {
		require.Equal(t, n.Info.Hash, n.Info.Chain().Hash(), n.Name)
		for name, change := range map[string]func(*beacon.Chain){
			"genesis": func(c *beacon.Chain) { c.Genesis += 30 * 24 * 3600 },
			"period":  func(c *beacon.Chain) { c.Period++ },
			"key":     func(c *beacon.Chain) { c.PublicKey = published(t)[0].Info.PublicKey[:len(c.PublicKey)-2] + "00" },
			"group":   func(c *beacon.Chain) { c.GroupHash = strings.Repeat("0", 64) },
			"id":      func(c *beacon.Chain) { c.BeaconID = "another" },
			"an id of other characters": func(c *beacon.Chain) {
				c.BeaconID = "a b"
				c.ChainHash = c.Hash()
			},
		} {
			c := n.Info.Chain()
			change(&c)
			require.Error(t, c.Validate(), "%s: another %s", n.Name, name)
			require.Empty(t, c.Network(), name)
		}
	}
	// The id "default" is not hashed, just like an empty id.
	c := beacon.Quicknet()
	c.BeaconID = ""
	unnamed := c.Hash()
	c.BeaconID = "default"
	require.Equal(t, unnamed, c.Hash())
}

func TestForgedRoundsAreRefused(t *testing.T) {
	t.Parallel()
	networks := published(t)
	for i, n := range networks {
		chain, good := n.Info.Chain(), n.Rounds[0]
		infinity := "c0" + strings.Repeat("0", len(good.Signature)-2)
		for name, change := range map[string]func(*beacon.Round){
			"another round":            func(r *beacon.Round) { r.Round++ },
			"round 0":                  func(r *beacon.Round) { r.Round = 0 },
			"changed signature":        func(r *beacon.Round) { r.Signature = r.Signature[:len(r.Signature)-1] + "0" },
			"the negated signature":    func(r *beacon.Round) { r.Signature = negated(r.Signature) },
			"the point at infinity":    func(r *beacon.Round) { r.Signature = infinity },
			"an uncompressed flag":     func(r *beacon.Round) { r.Signature = "1" + r.Signature[1:] },
			"capitals":                 func(r *beacon.Round) { r.Signature = strings.ToUpper(r.Signature) },
			"too short":                func(r *beacon.Round) { r.Signature = r.Signature[2:] },
			"a signature of the other": func(r *beacon.Round) { r.Signature = networks[1-i].Rounds[0].Signature },
			"an x that is not below p": func(r *beacon.Round) { r.Signature = "9f" + strings.Repeat("f", len(r.Signature)-2) },
			"empty":                    func(r *beacon.Round) { r.Signature = "" },
		} {
			forged := good
			change(&forged)
			require.NotEqual(t, good, forged, name)
			require.ErrorIs(t, chain.Verify(forged), beacon.ErrSignature, "%s: %s", n.Name, name)
		}
		forged := good
		forged.Randomness = networks[1-i].Rounds[0].Randomness
		require.ErrorIs(t, chain.Verify(forged), beacon.ErrRandomness, n.Name)
		other := chain
		other.Scheme = "pedersen-bls-chained"
		require.Error(t, other.Verify(good), "a scheme that is not supported")
		other.Scheme = networks[1-i].Info.Scheme
		require.Error(t, other.Verify(good), "a key of the other group")
	}
}

// negated returns the point with the negated y: it flips the flag that selects y.
func negated(signature string) string {
	const digits = "0123456789abcdef"
	first := strings.IndexByte(digits, signature[0]) ^ 2 // the flag 0x20
	return digits[first:first+1] + signature[1:]
}

func TestTimesOfRounds(t *testing.T) {
	t.Parallel()
	c := beacon.Quicknet()
	genesis := time.Unix(c.Genesis, 0)
	for at, want := range map[time.Time]uint64{
		time.Unix(0, 0):                1,
		genesis:                        1,
		genesis.Add(1):                 2,
		genesis.Add(3 * time.Second):   2,
		genesis.Add(3*time.Second + 1): 3,
		genesis.Add(6 * time.Second):   3,
		time.Unix(253402300799, 0):     uint64((253402300799-c.Genesis+2)/3) + 1, //nolint:gosec // positive
	} {
		require.Equal(t, want, c.FirstAt(at), at)
		require.False(t, c.TimeOf(want).Before(at.Truncate(time.Second)))
	}
	require.Equal(t, time.Date(2023, 8, 23, 15, 59, 24, 0, time.UTC), c.TimeOf(1000))
}
