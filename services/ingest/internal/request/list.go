package request

import (
	"context"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

const (
	maxPages = 100 // the maximum number of cached pages
	// pageWait is how long the read of a page waits for that of another one.
	pageWait = 500 * time.Millisecond
)

// pageKey identifies a page of the list of promotions.
type pageKey struct {
	after string
	limit int
}

type promotionPage struct {
	items []promotion.Promotion
	next  string
}

// List returns a page of promotions, newest first, as it was at most some seconds ago. Callers must
// not change it. Anybody may ask for any page, so pages are read one at a time: if this takes too
// long, List returns a page up to a minute old, or fails with errs.ErrOverloaded.
func (s *PromotionService) List(ctx context.Context, after string, limit int) ([]promotion.Promotion, string, error) {
	page, err := s.pages.Get(ctx, pageKey{after, limit})
	return page.items, page.next, err
}

func (s *PromotionService) readPage(ctx context.Context, k pageKey) (page promotionPage, err error) {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-time.After(pageWait):
		return page, errs.ErrOverloaded.WithRetry(time.Second)
	}
	page.items, page.next, err = s.store.List(ctx, k.after, k.limit)
	return page, err
}
