package bench

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaultsOfPositions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		given         givenPositions
		gaps, doubles int
	}{
		{nil, 0, 0},
		{givenPositions{3, 1, 2}, 0, 0},
		{givenPositions{2, 5}, 3, 0},
		{givenPositions{1, 2, 2, 2, 4}, 1, 2},
	} {
		gaps, doubles := tt.given.gapsAndDoubles()
		require.Equal(t, [2]int{tt.gaps, tt.doubles}, [2]int{gaps, doubles}, "%v", tt.given)
		if tt.gaps+tt.doubles == 0 {
			require.NoError(t, tt.given.requireExact())
		} else {
			require.Error(t, tt.given.requireExact())
		}
	}
}

func TestTakeAll(t *testing.T) {
	t.Parallel()
	all, took, err := takePositions(t.Context(), 100, 7, func(_ context.Context, i int) (int64, error) { return int64(i + 1), nil })
	require.NoError(t, err)
	require.Positive(t, took)
	require.Len(t, all, 100)
	require.NoError(t, all.requireExact())
}
