package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	set := map[string]string{"STRIPE_ADDR": "127.0.0.1:0", "STRIPE_SECRET_KEY": "sk_test_1", "STRIPE_WEBHOOK_SECRET": "whsec_1"}
	env := func(name string) string { return set[name] }
	list, err := open(env)
	require.NoError(t, err)
	require.Len(t, list, 1)
	answer := httptest.NewRecorder()
	list[0].handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/control/orders", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	for name, value := range map[string]string{"STRIPE_FAULTS": `{"lost": 2}`, "STRIPE_SECRET_KEY": "", "STRIPE_ADDR": ""} {
		before := set[name]
		set[name] = value
		_, err := open(env)
		require.ErrorContains(t, err, name)
		set[name] = before
	}
}
