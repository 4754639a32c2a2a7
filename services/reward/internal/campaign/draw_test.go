package campaign

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pearson's test of the draws against the weights.
func TestWeightsOfTheDraw(t *testing.T) {
	t.Parallel()
	none := int64(0)
	prizes := []Prize{{Name: "rare", Weight: 1}, {Name: "gone", Weight: 50, Stock: &none}, {Name: "frequent", Weight: 9}, {Name: "blank", Weight: 90}}
	const draws = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	counts := map[string]int{}
	for range draws {
		counts[pick(prizes, random.Int64N).Name]++
	}
	var chi float64
	for _, p := range prizes {
		if !p.left() {
			require.Zero(t, counts[p.Name])
			continue
		}
		want := draws * float64(p.Weight) / 100
		difference := float64(counts[p.Name]) - want
		chi += difference * difference / want
	}
	t.Logf("draws %v, chi-square %.3f; the limit of p = 0.001 at 2 degrees of freedom is 13.816", counts, chi)
	require.Less(t, chi, 13.816)
}

func TestNoPrizeIsLeft(t *testing.T) {
	t.Parallel()
	none := int64(0)
	require.Nil(t, pick([]Prize{{Weight: 1, Stock: &none}}, rand.Int64N))
}
