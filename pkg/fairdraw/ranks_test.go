package fairdraw_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
)

func TestRanks(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 777} {
		entries := entriesOf(n)
		key := fairdraw.Hash{1}
		ranks := fairdraw.NewRanks(key, entries)
		seen := map[int]bool{}
		for i := range n {
			id := entries.At(i)
			rank := ranks.Rank(id)
			require.Equal(t, fairdraw.Rank(key, entries, id), rank)
			seen[rank] = true
		}
		require.Len(t, seen, n)
		require.True(t, seen[1] && seen[n])
		winner := fairdraw.Winners(key, entries, 1)[0]
		require.Equal(t, 1, ranks.Rank(winner))
	}
}
