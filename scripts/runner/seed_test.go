package runner_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/runner"
)

// Seed creates the demo sale only if it does not exist, as an operator of the gateway at the URL.
func TestSeedCreatesTheSaleOnce(t *testing.T) {
	t.Parallel()
	created := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/events/demo", func(w http.ResponseWriter, _ *http.Request) {
		if created == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	mux.HandleFunc("POST /api/v1/auth/dev-login", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"token": "operator's"}`))
	})
	mux.HandleFunc("PUT /api/v1/admin/events/demo", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer operator's" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		created++
	})
	gateway := httptest.NewServer(mux)
	defer gateway.Close()
	for range 2 {
		require.NoError(t, runner.Seed(t.Context(), gateway.URL+"/", t.Logf))
	}
	require.Equal(t, 1, created)
}
