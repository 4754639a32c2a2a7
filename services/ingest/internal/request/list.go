package request

import (
	"context"
	"errors"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

const (
	maxPages = 100 // the maximum number of cached pages
	// pageSize is how many promotions are read at once: the most that a caller can ask for, so that one
	// read serves all limits.
	pageSize = 100
	// pageWait is how long the read of a later page waits for that of another one.
	pageWait = 500 * time.Millisecond
)

// promotionPage is the part of the list that begins after a promotion.
type promotionPage struct {
	items []promotion.Promotion
	next  string
}

// List returns up to limit (at most pageSize) promotions, newest first, as they were at most some
// seconds ago. Callers must not change them. The cursor is the id of the promotion before; one that
// does not exist is errs.ErrInvalidCursor, so that made-up cursors take no room among the pages.
//
// Anybody may ask for any page. So the first page is read whatever the others cost, and these one at a
// time: if one takes too long, List returns a page up to a minute old, or fails with errs.ErrOverloaded.
func (s *PromotionService) List(ctx context.Context, after string, limit int) ([]promotion.Promotion, string, error) {
	if after != "" {
		if _, err := s.cache.Get(ctx, after); errors.Is(err, ErrPromotionNotFound) {
			return nil, "", errs.ErrInvalidCursor
		}
	}
	page, err := s.pages.Get(ctx, after)
	if len(page.items) > limit {
		return page.items[:limit], page.items[limit-1].EventID, err
	}
	return page.items, page.next, err
}

func (s *PromotionService) readPage(ctx context.Context, after string) (page promotionPage, err error) {
	if after != "" {
		select {
		case s.reading <- struct{}{}:
			defer func() { <-s.reading }()
		case <-time.After(pageWait):
			return page, errs.ErrOverloaded.WithRetry(time.Second)
		}
	}
	page.items, page.next, err = s.store.List(ctx, after, pageSize)
	return page, err
}
