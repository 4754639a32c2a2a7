package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw/beacon"
)

func TestBeaconIsServed(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("s", 32)
	b, err := openBeacon(secret, "7s")
	require.NoError(t, err)
	server := httptest.NewServer(routes(http.NotFoundHandler(), http.NotFoundHandler(), b, nil, nil))
	defer server.Close()
	client, err := beacon.NewClient(b.Chain(), []string{server.URL + "/beacon"}, server.Client())
	require.NoError(t, err)
	require.NoError(t, client.Check(t.Context(), time.Now()))
	got, err := client.Get(t.Context(), 1)
	require.NoError(t, err)
	again, err := openBeacon(secret, "7s")
	require.NoError(t, err)
	require.Equal(t, again.Round(1), got, "after a restart too")
	require.EqualValues(t, 7, b.Chain().Period)
}

func TestBeaconSettings(t *testing.T) {
	t.Parallel()
	b, err := openBeacon("", "")
	require.NoError(t, err)
	require.Nil(t, b)
	for _, period := range []string{"7", "-1s", "1500ms"} {
		_, err = openBeacon(strings.Repeat("s", 32), period)
		require.Error(t, err, period)
	}
	_, err = openBeacon("short", "")
	require.Error(t, err)
}
