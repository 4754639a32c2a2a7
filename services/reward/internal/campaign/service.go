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

// Refusals.
var (
	ErrNotFound    = errs.ErrCampaignNotFound
	ErrNotOpen     = errs.ErrNotOpen
	ErrDrawsUsedUp = errs.ErrDrawsUsedUp
)

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

// Earned is an entry with its prize and its rewards.
type Earned struct {
	Entry

	Prize   *Prize // a draw's; nil: all prizes are gone
	Rewards []payout.Allocation
	// Repeated: the entry was made by an earlier request.
	Repeated bool
}

// Store keeps campaigns and entries.
type Store interface {
	// Create inserts a campaign once per key.
	Create(ctx context.Context, c Campaign, key *idempotency.Key) (Campaign, error)
	// Get returns a campaign and the present time; ErrNotFound.
	Get(ctx context.Context, eventID string) (Campaign, time.Time, error)
	// Part returns a member's part in a campaign; ErrNotFound.
	Part(ctx context.Context, eventID, memberID string) (Part, error)
	// Enter makes an entry in one transaction that excludes other entries of the member in the
	// campaign, or returns the one of an earlier request. It reads what the Entering asks for after the
	// member is locked, so that the day is that of the entry, and writes the Change with its rewards.
	Enter(ctx context.Context, eventID, memberID string, e Entering) (Earned, error)
}

// Service lets members take part in campaigns.
type Service struct {
	store Store
	// random returns a number in [0, n).
	random func(n int64) int64
	// earned is called after rewards were committed.
	earned func()
}

// NewService makes the service; earned wakes the payouts.
func NewService(store Store, earned func()) *Service {
	return &Service{store: store, earned: earned, random: rand.Int64N}
}

// Seeded replaces the random numbers of the draws, for tests.
func (s *Service) Seeded(r *rand.Rand) { s.random = r.Int64N }

// Create makes a campaign.
func (s *Service) Create(ctx context.Context, c Campaign, key *idempotency.Key) (Campaign, error) {
	c.DrawsPerMember, c.Period = cmp.Or(c.DrawsPerMember, 1), cmp.Or(c.Period, WholeCampaign)
	if err := c.Validate(); err != nil {
		return Campaign{}, err
	}
	return s.store.Create(ctx, c, key)
}

// Get returns a campaign and the present time.
func (s *Service) Get(ctx context.Context, eventID string) (Campaign, time.Time, error) {
	return s.store.Get(ctx, eventID)
}

// Part returns a member's part in a campaign.
func (s *Service) Part(ctx context.Context, eventID, memberID string) (Part, error) {
	return s.store.Part(ctx, eventID, memberID)
}

// Attend records the member's attendance of the present day in Korea, once, and what it earns.
func (s *Service) Attend(ctx context.Context, eventID, memberID string) (Earned, error) {
	return s.enter(ctx, eventID, memberID, attending(eventID, memberID))
}

// Draw draws a prize. With one draw per member and period a repeated request returns the same
// entry; with more, each draw needs an idempotency key.
func (s *Service) Draw(ctx context.Context, eventID, memberID, idempotencyKey string) (Earned, error) {
	return s.enter(ctx, eventID, memberID, drawing(eventID, memberID, idempotencyKey, s.random))
}

// enter makes an entry and wakes the payouts.
func (s *Service) enter(ctx context.Context, eventID, memberID string, how Entering) (Earned, error) {
	e, err := s.store.Enter(ctx, eventID, memberID, how)
	if err == nil && len(e.Rewards) > 0 && !e.Repeated {
		s.earned()
	}
	return e, err
}
