package draw

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// terms are the parsed commitment of a lottery, its hash, and the nonce of the seed.
type terms struct {
	fairdraw.Commitment

	hash  fairdraw.Hash
	nonce fairdraw.Nonce
}

const maxTerms = 1000 // the most lotteries in a termsCache

// termsCache keeps parsed terms: they never change, and checking a beacon's key takes a
// millisecond.
type termsCache struct{ *otter.Cache[string, terms] }

func newTermsCache() termsCache {
	return termsCache{otter.Must(&otter.Options[string, terms]{MaximumSize: maxTerms})}
}

func (c termsCache) termsOf(p *promotion.Promotion) (terms, error) {
	var err error
	t, _ := c.ComputeIfAbsent(p.EventID, func() (t terms, cancel bool) {
		t, err = parseTerms(p)
		return t, err != nil
	})
	return t, err
}

func parseTerms(p *promotion.Promotion) (t terms, err error) {
	if t.Commitment, t.hash, err = fairdraw.ParseCommitment([]byte(p.Commitment)); err != nil {
		return t, fmt.Errorf("commitment of %s: %w", p.EventID, err)
	}
	if t.nonce, err = fairdraw.ParseNonce(p.SeedNonce); err != nil {
		return t, fmt.Errorf("nonce of %s: %w", p.EventID, err)
	}
	return t, nil
}

// forEach calls do for 0 to n-1, maxGroups at a time, and returns the errors of all. It starts no
// call after ctx has ended.
func forEach(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	failures := make([]error, n)
	next := make(chan int)
	var work sync.WaitGroup
	for range min(maxGroups, n) {
		work.Go(func() {
			for i := range next {
				failures[i] = do(ctx, i)
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	work.Wait()
	return errors.Join(errors.Join(failures...), ctx.Err())
}
