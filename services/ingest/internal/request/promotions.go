package request

import (
	"context"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/readcache"
	"urr.guru/pkg/token"
)

const (
	// maxDuration is the longest time from opening to closing, and also from closing to announcement.
	maxDuration = 366 * 24 * time.Hour
	maxDelay    = 30 * 24 * time.Hour // the longest time from the cutoff to the beacon's value
)

// DecideChange is a function that changes a promotion, or fails if it may not be changed.
type DecideChange func(*promotion.Promotion) error

// PreparePromotion is a function that returns a new promotion, or fails if it may not be created.
type PreparePromotion func(ctx context.Context) (promotion.Promotion, error)

// PromotionStore keeps promotions.
type PromotionStore interface {
	// Create stores the promotion that prepare returns, once per key. If a promotion was created under
	// the key before, Create returns that one and does not call prepare.
	Create(ctx context.Context, key *idempotency.Key, prepare PreparePromotion) (promotion.Promotion, error)
	Promotion(ctx context.Context, eventID string) (promotion.Promotion, error)
	// Change reads a promotion, calls decide, and writes the promotion if decide has changed it. It
	// starts again if another operator has changed the promotion meanwhile.
	Change(ctx context.Context, eventID string, decide DecideChange) (promotion.Promotion, error)
	// List reads a page of promotions, newest first, eventually consistently.
	List(ctx context.Context, after string, limit int) (page []promotion.Promotion, next string, err error)
}

// PromotionOptions are the rules of new promotions.
type PromotionOptions struct {
	// Keys returns the keys with which receipts are signed now.
	Keys   func() token.SigningKeys
	Opener DrawOpener
	// MinDelay is the shortest time from a lottery's cutoff to the value of its beacon. Lead is the
	// shortest time from then to the announcement.
	MinDelay, Lead time.Duration
	Now            func() time.Time
}

// PromotionService creates and changes promotions.
type PromotionService struct {
	store PromotionStore
	cache *cacheOf[promotion.Promotion]
	pages *readcache.Cache[string, promotionPage] // by the id of the promotion before
	// reading is held by the one read of a later page that is in progress.
	reading chan struct{}
	opts    PromotionOptions
	now     func() time.Time
}

// NewPromotions returns a PromotionService that uses a store.
func NewPromotions(store PromotionStore, o PromotionOptions) *PromotionService {
	s := &PromotionService{
		store: store, opts: o, now: o.Now, cache: newCache(o.Now, freshFor, store.Promotion), reading: make(chan struct{}, 1),
	}
	s.pages = readcache.New(o.Now, freshFor, maxPages, s.readPage)
	return s
}

// Get returns a promotion as it was at most a second ago.
func (s *PromotionService) Get(ctx context.Context, eventID string) (promotion.Promotion, error) {
	return s.cache.Get(ctx, eventID)
}

// Create stores a new promotion, once per idempotency key. It makes the terms of a lottery's draw
// public. A repeated call returns the stored promotion without calling the worker service, even if
// the promotion would be refused as a new one by then.
func (s *PromotionService) Create(
	ctx context.Context, p promotion.Promotion, beacon *fairdraw.Beacon, key *idempotency.Key,
) (promotion.Promotion, error) {
	defer s.pages.Clear()
	return s.store.Create(ctx, key, func(ctx context.Context) (promotion.Promotion, error) {
		if fields := s.checkNew(&p, beacon); len(fields) > 0 {
			return p, errs.ErrInvalidRequest.WithFields(fields...)
		}
		p.EventID, p.CreatedAt = ids.NewV7().String(), s.now().UnixMilli()
		if p.EventType == promotion.Lottery {
			return p, s.commitTerms(ctx, &p, beacon)
		}
		return p, nil
	})
}

// Close ends a first-come promotion early.
func (s *PromotionService) Close(ctx context.Context, eventID string) (promotion.Promotion, error) {
	return s.change(ctx, eventID, func(p *promotion.Promotion) error {
		if p.EventType != promotion.FirstCome {
			return errs.ErrConflict
		}
		if p.ClosedAt == 0 {
			p.ClosedAt = s.now().UnixMilli()
		}
		return nil
	})
}

// SetPaused makes a promotion refuse requests, or accept them again.
func (s *PromotionService) SetPaused(ctx context.Context, eventID string, paused bool) (promotion.Promotion, error) {
	return s.change(ctx, eventID, func(p *promotion.Promotion) error {
		p.Paused = paused
		return nil
	})
}

// SetExpected sets the number of visitors that an operator expects. It may be called at any time.
func (s *PromotionService) SetExpected(ctx context.Context, eventID string, e plan.Expected) (promotion.Promotion, error) {
	if bad := e.Check(); len(bad) > 0 {
		return promotion.Promotion{}, errs.ErrInvalidRequest.WithFields(bad...)
	}
	return s.change(ctx, eventID, func(p *promotion.Promotion) error {
		p.Expect(e)
		return nil
	})
}

// expectedPage is how many of the newest promotions ExpectedOpenings searches.
const expectedPage = 100

// ExpectedOpenings returns the openings of promotions at which operators expect a crowd.
func (s *PromotionService) ExpectedOpenings(ctx context.Context, since, until time.Time) (out []planned.Opening, err error) {
	page, _, err := s.store.List(ctx, "", expectedPage)
	for i := range page {
		p, at := &page[i], time.UnixMilli(page[i].OpensAt)
		if p.Expected.Any() && p.ClosedAt == 0 && p.VoidedAt == 0 && at.After(since) && !at.After(until) {
			out = append(out, planned.Opening{EventID: p.EventID, At: at, Expected: p.Expected})
		}
	}
	return out, err
}

func (s *PromotionService) change(ctx context.Context, eventID string, decide DecideChange) (promotion.Promotion, error) {
	p, err := s.store.Change(ctx, eventID, decide)
	s.cache.Forget(eventID)
	s.pages.Clear()
	return p, err
}
