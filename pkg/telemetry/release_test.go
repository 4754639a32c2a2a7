package telemetry

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	require.Equal(t, "devel", version("", ""))
	require.Equal(t, "0.1.0", version("0.1.0", ""))
	require.Equal(t, "4f0c1d2e3a5b", version("", "4f0c1d2e3a5b"))
	require.Equal(t, "0.1.0+4f0c1d2e3a5b-dirty", version("0.1.0", "4f0c1d2e3a5b-dirty"))
}
