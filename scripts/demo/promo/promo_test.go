package promo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
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

// Whoever applies after the lottery's cutoff is told so. Before the cutoff, and in a first-come
// promotion, the same answer is an error. Of two applications at once one may be in time.
func TestApplicationsAfterTheCutoff(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/promotions/last-second/requests" && requests.Add(1) == 1 {
			_, _ = fmt.Fprint(w, `{"requestId": "one", "receipt": "signed"}`)
			return
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprint(w, `{"code": "NOT_OPEN"}`)
	}))
	t.Cleanup(server.Close)
	api := crowd.NewAPI(server.URL, crowd.NewRecorder())
	t.Cleanup(api.Close)
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, tc := range []struct {
		event         string
		cutoff        time.Time
		applicant     int // the first one of ten applies twice
		outcome       string
		late, receipt []string
	}{
		{"over", past, 1, "too late", []string{"applicant-00001"}, nil},
		{"over", past, 0, "too late", []string{"applicant-00000"}, nil},
		{"last-second", past, 0, "too late", nil, []string{"signed"}},
		{"open", future, 1, "error: apply: 409 NOT_OPEN", nil, nil},
		{"first-come", time.Time{}, 1, "error: apply: 409 NOT_OPEN", nil, nil},
	} {
		b := newBurst("burst", tc.applicant+1)
		b.event, b.cutoff, b.users[tc.applicant] = tc.event, tc.cutoff, api.NewSession()
		var tally demo.Tally
		require.Equal(t, tc.outcome, b.applyAs(t.Context(), tc.applicant, &tally))
		require.Empty(t, tally.Violations())
		require.Equal(t, tc.late, b.late)
		require.Equal(t, tc.receipt, b.receipts)
	}
}
