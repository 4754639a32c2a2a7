package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	set := map[string]string{
		"STRIPE_ADDR": "127.0.0.1:0", "STRIPE_SECRET_KEY": "sk_test_1", "STRIPE_WEBHOOK_SECRET": "whsec_1",
		"TOSS_ADDR": "127.0.0.1:0", "TOSS_CLIENT_KEY": "test_ck_1", "TOSS_SECRET_KEY": "test_sk_1",
	}
	env := func(name string) string { return set[name] }
	list, err := open(env)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, p := range list {
		answer := httptest.NewRecorder()
		p.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/control/orders", nil))
		require.Equal(t, http.StatusOK, answer.Code)
	}
	for name, value := range map[string]string{
		"STRIPE_FAULTS": `{"lost": 2}`, "STRIPE_SECRET_KEY": "", "TOSS_FAULTS": `{"lost": 2}`, "TOSS_SECRET_KEY": "", "TOSS_CLIENT_KEY": "",
	} {
		before := set[name]
		set[name] = value
		_, err := open(env)
		require.ErrorContains(t, err, name)
		set[name] = before
	}
	set["TOSS_ADDR"], set["STRIPE_ADDR"] = "", ""
	_, err = open(env)
	require.ErrorIs(t, err, errNothing)
}
