package rewards

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrizesAddUp(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 10, 50} {
		total := 0
		for _, p := range prizes(n) {
			if stock, limited := p["stock"].(int); limited {
				require.Positive(t, stock)
				total += stock
			}
		}
		require.Equal(t, n, total)
	}
}
