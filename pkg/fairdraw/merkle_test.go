package fairdraw

import (
	"encoding/hex"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The leaves and roots are test vectors of Certificate Transparency implementations.
func TestTreeOfCertificateTransparency(t *testing.T) {
	t.Parallel()
	leaves := []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	roots := []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	var tree Tree
	require.Equal(t, roots[0], tree.Root().String())
	for i, leaf := range leaves {
		data, err := hex.DecodeString(leaf)
		require.NoError(t, err)
		tree.Add(leafHash(data))
		require.Equal(t, i+1, tree.Count())
		require.Equal(t, roots[i+1], tree.Root().String(), "%d leaves", i+1)
	}
}

// numbered returns the n entries 0, 1, 2…
func numbered(n int) Entries {
	entries := make(Entries, 16*n)
	for i := range n {
		entries[16*i+14], entries[16*i+15] = byte(i>>8), byte(i)
	}
	return entries
}

func TestProofs(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 7, 8, 255, 256, 257, 511, 512, 513, 1000, 1025} {
		entries := numbered(n)
		prover := NewProver(entries)
		require.Equal(t, entries.Root(), prover.Root())
		for i := n - 1; i >= 0; i -= 1 + n/40 { // always the last one
			proof, ok := prover.Prove(entries.At(i))
			require.True(t, ok)
			require.Equal(t, i, proof.Index)
			require.True(t, proof.Verify(entries.At(i), prover.Root()), "%d of %d", i, n)
		}
	}
}

func TestProofsRefuse(t *testing.T) {
	t.Parallel()
	entries := numbered(300)
	prover := NewProver(entries)
	root := prover.Root()
	_, ok := prover.Prove(uuid.Max)
	require.False(t, ok)
	good, _ := prover.Prove(entries.At(7))
	require.True(t, good.Verify(entries.At(7), root))
	require.False(t, good.Verify(entries.At(8), root), "another entry")
	require.False(t, good.Verify(entries.At(7), Hash{}), "another root")
	for name, change := range map[string]func(*Proof){
		"another index":   func(p *Proof) { p.Index++ },
		"negative index":  func(p *Proof) { p.Index = -1 },
		"index too large": func(p *Proof) { p.Index = p.Count },
		"smaller count":   func(p *Proof) { p.Count = 8 },
		"no path":         func(p *Proof) { p.Path = nil },
		"short path":      func(p *Proof) { p.Path = p.Path[:len(p.Path)-1] },
		"long path":       func(p *Proof) { p.Path = append(p.Path[:len(p.Path):len(p.Path)], Hash{}) },
		"changed path":    func(p *Proof) { p.Path = append([]Hash{{}}, p.Path[1:]...) },
	} {
		forged := good
		change(&forged)
		require.False(t, forged.Verify(entries.At(7), root), name)
	}
}

// A node with two children has another hash than an entry that consists of their two hashes.
func TestNodesAreNoLeaves(t *testing.T) {
	t.Parallel()
	left, right := leafHash([]byte("a")), leafHash([]byte("b"))
	require.NotEqual(t, nodeHash(&left, &right), leafHash(append(left[:], right[:]...)))
}
