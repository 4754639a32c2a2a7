package beacontest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/testkit"
)

func TestKeyDecidesEverything(t *testing.T) {
	t.Parallel()
	secret := slices.Repeat([]byte{7}, 32)
	for _, scheme := range []string{beacon.SchemeG1, beacon.SchemeG2} {
		a, err := New(secret, Options{Scheme: scheme})
		require.NoError(t, err)
		b, err := New(secret, Options{Scheme: scheme})
		require.NoError(t, err)
		require.Equal(t, a.Chain(), b.Chain())
		require.Equal(t, a.Round(9), b.Round(9))
		require.NoError(t, a.Chain().Validate())
		require.NoError(t, a.Chain().Verify(a.Round(9)))
		other, err := New(slices.Repeat([]byte{8}, 32), Options{Scheme: scheme})
		require.NoError(t, err)
		require.NotEqual(t, a.Round(9).Randomness, other.Round(9).Randomness)
	}
	for _, o := range []Options{{Scheme: "x"}, {Period: time.Millisecond}, {Period: 1500 * time.Millisecond}, {Genesis: time.Unix(1, 1)}} {
		_, err := New(secret, o)
		require.Error(t, err, "%+v", o)
	}
	_, err := New(secret[:31], Options{})
	require.Error(t, err, "a short secret")
}

func TestInterface(t *testing.T) {
	t.Parallel()
	genesis := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	clock := testkit.NewClock(genesis.Add(-time.Second))
	b, err := New(slices.Repeat([]byte{7}, 32), Options{Genesis: genesis, Period: 10 * time.Second, Now: clock.Now})
	require.NoError(t, err)
	get := func(path string, target any) int {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code == http.StatusOK {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), target))
		}
		return w.Code
	}
	var r beacon.Round
	require.Equal(t, http.StatusNotFound, get("/public/latest", &r), "before the first round")
	clock.Set(genesis)
	require.Equal(t, http.StatusOK, get("/public/latest", &r))
	require.EqualValues(t, 1, r.Round)
	clock.Set(genesis.Add(29 * time.Second))
	for _, prefix := range []string{"", "/" + b.Chain().ChainHash} {
		var info beacon.Info
		require.Equal(t, http.StatusOK, get(prefix+"/info", &info))
		require.Equal(t, b.Chain(), info.Chain())
		require.Equal(t, http.StatusOK, get(prefix+"/public/latest", &r))
		require.Equal(t, b.Round(3), r)
		require.Equal(t, http.StatusOK, get(prefix+"/public/2", &r))
		require.Equal(t, b.Round(2), r)
		for path, want := range map[string]int{"/public/4": http.StatusNotFound, "/public/0": http.StatusNotFound, "/public/x": http.StatusBadRequest, "/public/-1": http.StatusBadRequest} {
			require.Equal(t, want, get(prefix+path, &r), path)
		}
	}
	var chains []string
	require.Equal(t, http.StatusOK, get("/chains", &chains))
	require.Equal(t, []string{b.Chain().ChainHash}, chains)
	require.Equal(t, http.StatusNotFound, get(fmt.Sprintf("/%064d/info", 0), &r), "another chain")
}
