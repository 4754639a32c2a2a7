package fairdraw

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func indexOf(t *testing.T, entries Entries) *Index {
	t.Helper()
	x := new(Index)
	for n := range ChunkCount(int64(entries.Len())) {
		require.NoError(t, x.Add(entries.Chunk(n)))
	}
	return x
}

// A proof needs the index and the chunk of its entry, or two chunks if its block spans both.
func TestProofsByChunks(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 300, ChunkSize - 1, ChunkSize, ChunkSize + 1, 2*ChunkSize + 77, 3 * ChunkSize} {
		entries := numbered(n)
		x := indexOf(t, entries)
		require.Equal(t, n, x.Len())
		require.Equal(t, entries.Root(), x.Root())
		for _, i := range []int{0, 1, 255, 256, 19_967, 19_968, 19_999, 20_000, 20_223, 20_224, 39_999, 40_000, n - 1} {
			if i >= n {
				continue
			}
			read := map[int]bool{}
			proof, ok, err := x.Prove(entries.At(i), func(n int) (Entries, error) {
				read[n] = true
				require.NoError(t, x.Check(n, entries.Chunk(n)))
				return entries.Chunk(n), nil
			})
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, i, proof.Index)
			require.True(t, proof.Verify(entries.At(i), x.Root()), "%d of %d", i, n)
			require.True(t, read[i/ChunkSize])
			require.LessOrEqual(t, len(read), 2)
		}
		_, ok, err := x.Prove(uuid.Max, func(n int) (Entries, error) { return entries.Chunk(n), nil })
		require.NoError(t, err)
		require.False(t, ok)
	}
	require.Less(t, indexOf(t, numbered(3*ChunkSize)).Size(), int64(10_000))
}

func TestChunksThatAreNotOfTheList(t *testing.T) {
	t.Parallel()
	entries := numbered(ChunkSize + 10)
	x := indexOf(t, entries)
	changed := slices.Clone(entries.Chunk(1))
	changed[3]++
	require.ErrorIs(t, x.Check(1, changed), ErrOtherEntries)
	require.ErrorIs(t, x.Check(0, entries.Chunk(1)), ErrOtherEntries)
	require.ErrorIs(t, x.Check(2, nil), ErrOtherEntries)
	require.Empty(t, entries.Chunk(2))

	require.ErrorIs(t, x.Add(numbered(70)), ErrUnsorted, "behind a short chunk")
	x = new(Index)
	require.ErrorIs(t, x.Add(entries), ErrUnsorted, "too long")
	require.ErrorIs(t, x.Add(nil), ErrUnsorted, "empty")
	require.ErrorIs(t, x.Add(entries[:20]), ErrUnsorted, "half an id")
	require.NoError(t, x.Add(entries.Chunk(0)))
	require.ErrorIs(t, x.Add(entries.Chunk(0)), ErrUnsorted, "twice")
}

// Entries whose HMACs begin with the same bits are ordered by the remaining bits.
func TestOrderOfEqualBeginnings(t *testing.T) {
	t.Parallel()
	entries := numbered(3000)
	want := Order(Hash{1}, entries)
	for _, indexBits := range []int{50, 58, 63} { // so that 14, 6 and 1 bits are compared first
		require.Equal(t, want, orderByMAC(Hash{1}, entries, indexBits))
	}
}
