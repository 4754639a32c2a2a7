package harness_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

func TestRepeatWhileOverloaded(t *testing.T) {
	t.Parallel()
	statuses := []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusConflict, http.StatusOK}
	answer, err := harness.RepeatWhileOverloaded(t.Context(), t, func() (*harness.Answer, error) {
		a := &harness.Answer{Status: statuses[0]}
		statuses = statuses[1:]
		return a, nil
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, answer.Status, "a refusal is an answer")
	require.Len(t, statuses, 1)
}

func TestRepeatWhileOverloadedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := harness.RepeatWhileOverloaded(ctx, t, func() (*harness.Answer, error) {
		cancel()
		return &harness.Answer{Status: http.StatusServiceUnavailable}, nil
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, answer.Status)
}
