package app_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/gateway/internal/app"
)

// The command plan needs no configuration.
func TestPlan(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	command := app.Plan()
	require.True(t, command.Unconfigured)
	require.NoError(t, command.Run(t.Context(), nil, []string{"--visitors", "100000", "--within", "60"}, &out))
	require.Contains(t, out.String(), "gateway")
	var exit *lifecycle.Exit
	require.ErrorAs(t, command.Run(t.Context(), nil, []string{"--visitors", "0", "--within", "60"}, &out), &exit)
	require.Equal(t, 2, exit.Code)
}
