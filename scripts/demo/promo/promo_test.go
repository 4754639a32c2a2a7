package promo

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw/beacontest"
)

// The terms of the lottery contain the chain that the sandbox's beacon publishes.
func TestChainOfTheBeacon(t *testing.T) {
	t.Parallel()
	beacon, err := beacontest.New([]byte("a secret of at least thirty-two bytes"), beacontest.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(beacon)
	t.Cleanup(server.Close)
	chain, err := readChain(t.Context(), server.URL)
	require.NoError(t, err)
	require.NoError(t, chain.Validate())
	require.EqualValues(t, 3, chain.Period)
	_, err = readChain(t.Context(), server.URL+"/none")
	require.Error(t, err)
}
