package promo_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/scripts/promo"
)

func verdict() promo.Verdict {
	return promo.Verdict{Wanted: 10_000, Applicants: 10_000, FirstCome: 500, Places: 500, Lottery: 100, Winners: 100}
}

func TestVerdictOfARunWithoutFaults(t *testing.T) {
	t.Parallel()
	v := verdict()
	require.True(t, v.OK())
	require.Equal(t, "demo-promo ok: applicants=10000 first_come=500 lottery=100 duplicates_in=0 out_of_order=0 unsettled=0 unverified=0", v.Line())
}

func TestEachFaultFailsTheRun(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*promo.Verdict){
		"an application is missing": func(v *promo.Verdict) { v.Applicants-- },
		"a place was not given":     func(v *promo.Verdict) { v.FirstCome-- },
		"a place too many":          func(v *promo.Verdict) { v.FirstCome++ },
		"a winner too many":         func(v *promo.Verdict) { v.Lottery++ },
		"duplicates":                func(v *promo.Verdict) { v.DuplicatesIn++ },
		"order":                     func(v *promo.Verdict) { v.OutOfOrder++ },
		"unsettled":                 func(v *promo.Verdict) { v.Unsettled++ },
		"unverified":                func(v *promo.Verdict) { v.Unverified++ },
	} {
		v := verdict()
		spoil(&v)
		require.False(t, v.OK(), name)
		require.Contains(t, v.Line(), "demo-promo FAILED: ", name)
	}
	v := verdict()
	v.Other = 2
	require.Contains(t, v.Line(), " unverified=0 other=2")
	require.False(t, v.OK())
}

// The terms of the lottery name the chain that the sandbox's beacon publishes.
func TestChainOfTheBeacon(t *testing.T) {
	t.Parallel()
	beacon, err := beacontest.New([]byte("a secret of at least thirty-two bytes"), beacontest.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(beacon)
	t.Cleanup(server.Close)
	chain, err := promo.ChainOf(t.Context(), server.URL)
	require.NoError(t, err)
	require.NoError(t, chain.Validate())
	require.EqualValues(t, 3, chain.Period)
	_, err = promo.ChainOf(t.Context(), server.URL+"/none")
	require.Error(t, err)
}
