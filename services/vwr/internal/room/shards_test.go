package room_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/room"
)

// Records are found by key, which depends on the number of shards. So it is fixed for a round.
func TestShardsAreFixedForARound(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 1)
	activate := func(shards int) (room.State, error) {
		return d[0].Activate(t.Context(), "e", room.SettingsChange{Shards: &shards})
	}
	for _, n := range []int{-1, 0, room.MaxShards + 1} {
		_, err := activate(n)
		require.ErrorIs(t, err, room.ErrInvalidSettings, "%d", n)
		require.Equal(t, "shards", errs.From(err).Fields[0].Path)
	}
	one, err := activate(4)
	require.NoError(t, err)
	require.Equal(t, 4, one.Shards)
	again, err := activate(4)
	require.NoError(t, err, "an operator repeats the call")
	require.Equal(t, one.Round, again.Round)
	batch := int64(7)
	changed, err := d[0].Activate(t.Context(), "e", room.SettingsChange{Batch: &batch})
	require.NoError(t, err)
	require.Equal(t, []int64{7, 4}, []int64{changed.Settings.Batch, int64(changed.Shards)}, "settings change without it")
	_, err = activate(8)
	require.ErrorIs(t, err, room.ErrShardsFixed)
	require.Equal(t, "4", errs.From(err).Metadata["shards"])
	d[0].deactivate(t)
	two, err := activate(room.MaxShards)
	require.NoError(t, err)
	require.Greater(t, two.Round, one.Round)
	require.Equal(t, room.MaxShards, two.Shards)
	d[0].deactivate(t)
	require.Equal(t, 1, d[0].activate(t).Shards, "the default of a new round")
}
