package request

import (
	"context"
	"time"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
)

// maxDuration bounds a promotion.
const maxDuration = 366 * 24 * time.Hour

// PromotionStore keeps promotions.
type PromotionStore interface {
	Create(ctx context.Context, p asyncevent.Promotion, key *idempotency.Key) (asyncevent.Promotion, error)
	Promotion(ctx context.Context, eventID string) (asyncevent.Promotion, error)
	// Update changes a promotion unless it has changed since it was read: then stale is true.
	Update(ctx context.Context, before, after asyncevent.Promotion) (stale bool, err error)
	List(ctx context.Context, after string, limit int) (page []asyncevent.Promotion, next string, err error)
}

// PromotionService creates and changes promotions.
type PromotionService struct {
	store PromotionStore
	cache *Cache[asyncevent.Promotion]
	now   func() time.Time
}

// NewPromotions makes a service over a store.
func NewPromotions(store PromotionStore, now func() time.Time) *PromotionService {
	return &PromotionService{store: store, now: now, cache: NewCache(now, store.Promotion)}
}

// Get returns a promotion as it was at most a second ago.
func (s *PromotionService) Get(ctx context.Context, eventID string) (asyncevent.Promotion, error) {
	return s.cache.Get(ctx, eventID)
}

// List returns a page of promotions, newest first.
func (s *PromotionService) List(ctx context.Context, after string, limit int) ([]asyncevent.Promotion, string, error) {
	return s.store.List(ctx, after, limit)
}

// Create stores a new promotion, once per key.
func (s *PromotionService) Create(ctx context.Context, p asyncevent.Promotion, key *idempotency.Key) (asyncevent.Promotion, error) {
	var fields []errs.Field
	if p.ClosesAt <= p.OpensAt {
		fields = append(fields, errs.Field{Path: "closesAt", Message: "must be after opensAt"})
	} else if p.ClosesAt-p.OpensAt > maxDuration.Milliseconds() {
		fields = append(fields, errs.Field{Path: "closesAt", Message: "must be within a year of opensAt"})
	}
	if len(fields) > 0 {
		return p, errs.ErrInvalidRequest.WithFields(fields...)
	}
	p.EventID, p.CreatedAt = ids.NewV7().String(), s.now().UnixMilli()
	return s.store.Create(ctx, p, key)
}

// Close ends a first-come promotion.
func (s *PromotionService) Close(ctx context.Context, eventID string) (asyncevent.Promotion, error) {
	return s.update(ctx, eventID, func(p *asyncevent.Promotion) error {
		if p.EventType != asyncevent.FirstCome {
			return errs.ErrConflict
		}
		if p.ClosedAt == 0 {
			p.ClosedAt = s.now().UnixMilli()
		}
		return nil
	})
}

// SetPaused stops the taking of requests, or continues it.
func (s *PromotionService) SetPaused(ctx context.Context, eventID string, paused bool) (asyncevent.Promotion, error) {
	return s.update(ctx, eventID, func(p *asyncevent.Promotion) error {
		p.Paused = paused
		return nil
	})
}

// updateTries bounds how often a change is tried that meets another operator's.
const updateTries = 5

func (s *PromotionService) update(ctx context.Context, eventID string, change func(*asyncevent.Promotion) error) (asyncevent.Promotion, error) {
	for range updateTries {
		before, err := s.store.Promotion(ctx, eventID)
		if err != nil {
			return before, err
		}
		after := before
		if err := change(&after); err != nil || after == before {
			return after, err
		}
		after.Version++
		stale, err := s.store.Update(ctx, before, after)
		if err != nil || !stale {
			s.cache.Forget(eventID)
			return after, err
		}
	}
	return asyncevent.Promotion{}, errs.ErrConflict
}
