package campaign

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/services/reward/internal/payout"
)

// Errors of requests to take part in a campaign.
var (
	ErrNotFound    = errs.ErrCampaignNotFound
	ErrNotOpen     = errs.ErrNotOpen
	ErrDrawsUsedUp = errs.ErrDrawsUsedUp
)

// ErrNoPromotion refuses a campaign for the winners of a promotion that does not exist.
var ErrNoPromotion = errs.ErrPromotionNotFound

// Entry is one attendance, draw or win.
type Entry struct {
	ID                int64
	EventID, MemberID string
	Period            string
	DrawNo            int
	Streak            int
	PrizeID           int64 // 0: none
	At                time.Time
}

// RewardedEntry is an entry with its prize and its rewards.
type RewardedEntry struct {
	Entry

	Prize    *Prize // the prize of a draw; nil: all prizes were gone
	Rewards  []payout.Allocation
	Repeated bool // the entry was made by an earlier request
}

// Store keeps campaigns and entries.
type Store interface {
	// Create inserts a campaign once per idempotency key, and returns it and the present time.
	Create(ctx context.Context, c Campaign, key *idempotency.Key) (Campaign, time.Time, error)
	// Get returns a campaign and the present time, or ErrNotFound.
	Get(ctx context.Context, eventID string) (Campaign, time.Time, error)
	// Part reads what a member has done and earned in p.Campaign, and returns p with it added.
	Part(ctx context.Context, p Participation, memberID string) (Participation, error)
	// Enter makes an entry, or returns the entry of an earlier request. Its transaction locks the
	// member's entries in the campaign, then reads the time and what e.Query asks for, and writes
	// what e.Decide returns. It fails with errs.ErrOverloaded when too many requests wait already.
	Enter(ctx context.Context, eventID, memberID string, e EntryMethod) (RewardedEntry, error)
}

// PromotionChecker checks that the promotion exists whose winners a new campaign rewards.
type PromotionChecker interface {
	// CheckExists fails with ErrNoPromotion when no promotion has the id.
	CheckExists(ctx context.Context, id string) error
}

// Service lets members take part in campaigns.
type Service struct {
	store      Store
	promotions PromotionChecker // nil: promotions are not checked
	// random returns a number in [0, n).
	random      func(n int64) int64
	wakePayouts func()
}

// NewService makes the service. promotions may be nil; then nothing checks whether a promotion
// exists. The service calls wakePayouts when a member has earned a reward.
func NewService(store Store, promotions PromotionChecker, wakePayouts func()) *Service {
	return &Service{store: store, promotions: promotions, wakePayouts: wakePayouts, random: rand.Int64N}
}

// SetRandom replaces the random numbers of the draws, for tests.
func (s *Service) SetRandom(r *rand.Rand) { s.random = r.Int64N }

// Create stores a new campaign, once per idempotency key. It fails with ErrNoPromotion when the
// promotion whose winners are rewarded does not exist.
func (s *Service) Create(ctx context.Context, c Campaign, key *idempotency.Key) (Campaign, time.Time, error) {
	c.DrawsPerMember, c.Period = cmp.Or(c.DrawsPerMember, 1), cmp.Or(c.Period, WholeCampaign)
	if err := c.Validate(); err != nil {
		return Campaign{}, time.Time{}, err
	}
	if c.PromotionID != "" && s.promotions != nil {
		if err := s.promotions.CheckExists(ctx, c.PromotionID); err != nil {
			return Campaign{}, time.Time{}, err
		}
	}
	return s.store.Create(ctx, c, key)
}

func (s *Service) Get(ctx context.Context, eventID string) (Campaign, time.Time, error) {
	return s.store.Get(ctx, eventID)
}

func (s *Service) Part(ctx context.Context, eventID, memberID string) (Participation, error) {
	c, now, err := s.store.Get(ctx, eventID)
	if err != nil {
		return Participation{}, err
	}
	return s.store.Part(ctx, Participation{Campaign: c, Now: now}, memberID)
}

// Attend records, once, the member's attendance on the present day in Korea, and its rewards. With
// an idempotency key, a repeated request returns the same entry even on a later day.
func (s *Service) Attend(ctx context.Context, eventID, memberID, idempotencyKey string) (RewardedEntry, error) {
	return s.enter(ctx, eventID, memberID, attendance(eventID, memberID, idempotencyKey))
}

// Draw draws a prize. With one draw per period, a repeated request returns the same entry; with an
// idempotency key, it does so even later. With several draws, each request needs a key.
func (s *Service) Draw(ctx context.Context, eventID, memberID, idempotencyKey string) (RewardedEntry, error) {
	return s.enter(ctx, eventID, memberID, prizeDraw(eventID, memberID, idempotencyKey, s.random))
}

func (s *Service) enter(ctx context.Context, eventID, memberID string, method EntryMethod) (RewardedEntry, error) {
	e, err := s.store.Enter(ctx, eventID, memberID, method)
	if err == nil && len(e.Rewards) > 0 && !e.Repeated {
		s.wakePayouts()
	}
	return e, err
}
