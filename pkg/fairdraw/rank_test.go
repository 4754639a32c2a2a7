package fairdraw_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/token"
)

// The test implements the definition in the plainest way.
func TestWinnersAreTheSmallestMACs(t *testing.T) {
	t.Parallel()
	key, entries := fairdraw.Hash{1}, entriesOf(500)
	var all []uuid.UUID
	for i := range entries.Len() {
		all = append(all, entries.At(i))
	}
	mac := func(id uuid.UUID) []byte {
		h := hmac.New(sha256.New, key[:])
		h.Write(id[:])
		return h.Sum(nil)
	}
	slices.SortFunc(all, func(a, b uuid.UUID) int { return bytes.Compare(mac(a), mac(b)) })
	for _, n := range []int{-1, 0, 1, 7, 499, 500, 501} {
		require.Equal(t, all[:min(max(n, 0), 500)], fairdraw.Winners(key, entries, n), "%d winners", n)
	}
	order := fairdraw.Order(key, entries)
	require.Len(t, order, len(all))
	for i, id := range all {
		require.Equal(t, id, entries.At(int(order[i])))
	}
	require.Empty(t, fairdraw.Winners(key, nil, 3))
	require.Empty(t, fairdraw.Order(key, nil))
}

// shuffled returns all ids in the order of a shuffle.
func shuffled(key fairdraw.Hash, entries fairdraw.Entries) (ids []byte) {
	for _, at := range fairdraw.Order(key, entries) {
		id := entries.At(int(at))
		ids = append(ids, id[:]...)
	}
	return ids
}

func TestKeyDependsOnEverything(t *testing.T) {
	t.Parallel()
	a, b := fairdraw.Hash{1}, fairdraw.Hash{2}
	keys := map[fairdraw.Hash]bool{}
	for _, k := range []fairdraw.Hash{
		fairdraw.Key(a, a, a, a[:]), fairdraw.Key(b, a, a, a[:]), fairdraw.Key(a, b, a, a[:]),
		fairdraw.Key(a, a, b, a[:]), fairdraw.Key(a, a, a, b[:]), fairdraw.Key(a, a, a, nil),
	} {
		keys[k] = true
	}
	require.Len(t, keys, 6)
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	secrets := func(s config.Secret) token.MACSet {
		set, err := token.ParseKeySet(s)
		require.NoError(t, err)
		return set.Derive(fairdraw.LabelSeed)
	}
	const x, y = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
	nonce := fairdraw.NewNonce()
	first, ok := fairdraw.Seed(secrets("a:"+x), "a", "e", nonce)
	require.True(t, ok)
	rotated, ok := fairdraw.Seed(secrets("b:"+y+",a:"+x), "a", "e", nonce)
	require.True(t, ok)
	require.Equal(t, first, rotated, "a rotation changes no seed")
	other, _ := fairdraw.Seed(secrets("a:"+x), "a", "e2", nonce)
	require.NotEqual(t, first, other)
	other, _ = fairdraw.Seed(secrets("a:"+x), "a", "e", fairdraw.NewNonce())
	require.NotEqual(t, first, other)
	_, ok = fairdraw.Seed(secrets("b:"+y), "a", "e", nonce)
	require.False(t, ok)
}

// pages returns the entries in pages of the given size.
func pages(entries fairdraw.Entries, size int) fairdraw.Pages {
	return func() (fairdraw.Entries, error) {
		n := min(size*16, len(entries))
		page := entries[:n]
		entries = entries[n:]
		return page, nil
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	all := entriesOf(1000)
	partitions := make([]fairdraw.Entries, 8)
	for i := range all.Len() {
		id := all.At(i)
		partitions[id[15]%7] = append(partitions[id[15]%7], id[:]...) // one partition stays empty
	}
	for _, size := range []int{1, 3, 1000} {
		var sources []fairdraw.Pages
		for _, p := range partitions {
			sources = append(sources, pages(p, size))
		}
		var got fairdraw.Entries
		require.NoError(t, fairdraw.Merge(sources, func(id uuid.UUID) error { got = append(got, id[:]...); return nil }))
		require.Equal(t, all, got)
	}
	require.NoError(t, fairdraw.Merge(nil, nil))
}

func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	ignore := func(uuid.UUID) error { return nil }
	all := entriesOf(3)
	broken := errors.New("broken")
	failing := func() (fairdraw.Entries, error) { return nil, broken }
	require.ErrorIs(t, fairdraw.Merge([]fairdraw.Pages{pages(all, 1), pages(all[16:], 1)}, ignore), fairdraw.ErrUnsorted, "twice")
	require.ErrorIs(t, fairdraw.Merge([]fairdraw.Pages{pages(slices.Concat(all[16:], all[:16]), 1)}, ignore), fairdraw.ErrUnsorted, "out of order")
	require.ErrorIs(t, fairdraw.Merge([]fairdraw.Pages{pages(all, 1), failing}, ignore), broken)
	require.ErrorIs(t, fairdraw.Merge([]fairdraw.Pages{func() (fairdraw.Entries, error) { return all[:40], nil }}, ignore), fairdraw.ErrUnsorted, "half an id")
	require.ErrorIs(t, fairdraw.Merge([]fairdraw.Pages{pages(all, 1)}, func(uuid.UUID) error { return broken }), broken)
	_, err := fairdraw.ParseEntries(all[:40])
	require.ErrorIs(t, err, fairdraw.ErrUnsorted)
}
