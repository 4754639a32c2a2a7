package campaign

// pickPrize picks a prize that is in stock at random, by weight. It returns nil when none is in
// stock. random returns a number in [0, n).
func pickPrize(prizes []Prize, random func(n int64) int64) *Prize {
	var total int64
	for i := range prizes {
		if prizes[i].inStock() {
			total += prizes[i].Weight
		}
	}
	if total == 0 {
		return nil
	}
	remaining := random(total)
	for i := range prizes {
		if !prizes[i].inStock() {
			continue
		}
		if remaining -= prizes[i].Weight; remaining < 0 {
			return &prizes[i]
		}
	}
	return nil // unreachable: remaining was below the sum of the weights
}

func (p *Prize) inStock() bool { return p.Stock == nil || *p.Stock > 0 }
