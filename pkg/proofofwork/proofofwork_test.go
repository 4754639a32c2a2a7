package proofofwork_test

import (
	"context"
	"crypto/sha256"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/proofofwork"
)

func TestSolve(t *testing.T) {
	t.Parallel()
	for _, challenge := range []string{"c", strings.Repeat("a", 63), strings.Repeat("b", 64), strings.Repeat("c", 200)} {
		for _, difficulty := range []int{0, 1, 7, 8, 13} {
			proof, err := proofofwork.Solve(t.Context(), challenge, difficulty)
			require.NoError(t, err)
			sum := sha256.Sum256([]byte(proof))
			zeros := len(sum)*8 - new(big.Int).SetBytes(sum[:]).BitLen()
			require.GreaterOrEqual(t, zeros, difficulty)
			require.Equal(t, zeros, proofofwork.Bits(proof))
			got, nonce, ok := proofofwork.Split(proof)
			require.True(t, ok)
			require.Equal(t, challenge, got)
			require.NotEmpty(t, nonce)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := proofofwork.Solve(ctx, "c", 256)
	require.ErrorIs(t, err, context.Canceled)
}

func TestSplitRefusesWhatIsNoProof(t *testing.T) {
	t.Parallel()
	for _, proof := range []string{"", ".", "c", "c.", ".n", "c.n.n", "c.n n", "c.\xff", "c." + strings.Repeat("n", 33)} {
		_, _, ok := proofofwork.Split(proof)
		require.False(t, ok, "%q", proof)
	}
	_, _, ok := proofofwork.Split("c." + strings.Repeat("n", 32))
	require.True(t, ok)
}

// BenchmarkSolve shows the hashes per second of one core.
func BenchmarkSolve(b *testing.B) {
	challenge := strings.Repeat("c", 91)
	for b.Loop() {
		_, _ = proofofwork.Solve(b.Context(), challenge, 10) // 1,024 hashes on average
	}
}
