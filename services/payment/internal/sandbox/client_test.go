package sandbox_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/sandbox"
)

// Only these statuses mean that one request is invalid. Any other error concerns all requests or
// the provider, and counts for the circuit breaker.
func TestStatusesThatRejectOneCharge(t *testing.T) {
	t.Parallel()
	for status, rejected := range map[int]bool{
		http.StatusBadRequest: true, http.StatusConflict: true, http.StatusUnprocessableEntity: true,
		http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: false,
		http.StatusRequestTimeout: false, http.StatusTooManyRequests: false,
		http.StatusInternalServerError: false, http.StatusServiceUnavailable: false,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			t.Cleanup(server.Close)
			client := sandbox.NewClient(server.URL, "", sandbox.Options{})
			t.Cleanup(client.Close)
			_, err := client.Charge(t.Context(), payment.Payment{}, payment.Outcome{})
			require.Error(t, err)
			require.NotErrorIs(t, err, payment.ErrNotSent)
			if rejected {
				require.ErrorIs(t, err, payment.ErrChargeRejected)
			} else {
				require.NotErrorIs(t, err, payment.ErrChargeRejected)
			}
		})
	}
}
