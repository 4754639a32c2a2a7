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

// Reason of an allocation.
type Reason string

// Reasons.
const (
	ForDay       Reason = "DAILY"
	ForMilestone Reason = "MILESTONE"
	ForDraw      Reason = "DRAW"
	ForWinning   Reason = "WINNER"
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

// NewAllocation is a reward that an entry earns.
type NewAllocation struct {
	Reward

	Reason    Reason
	Milestone int // days, ForMilestone only
	Key       string
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
	// Enter runs fn in one transaction that excludes other entries of the member in the campaign.
	Enter(ctx context.Context, eventID, memberID string, fn func(context.Context, Tx) (Earned, error)) (Earned, error)
}

// Tx is the transaction of an entry.
type Tx interface {
	// Campaign and Now are read after the member is locked, so that the day is that of the entry.
	Campaign() Campaign
	Now() time.Time
	// Existing returns the entry of a period and number; found is false when there is none.
	Existing(ctx context.Context, period string, drawNo int) (e Earned, found bool, err error)
	// Entries counts the member's entries in a period.
	Entries(ctx context.Context, period string) (int, error)
	// PaidMilestones returns the milestones that the member has reached before.
	PaidMilestones(ctx context.Context) (map[int]bool, error)
	// Replay returns the entry of an earlier request with the key.
	Replay(ctx context.Context, key *idempotency.Key) (e Earned, found bool, err error)
	Keep(ctx context.Context, key *idempotency.Key, entryID int64) error
	Insert(ctx context.Context, e Entry) (id int64, err error)
	// Take gives the entry the prize and takes it from the stock; false when nothing is left.
	Take(ctx context.Context, entryID int64, p *Prize) (bool, error)
	Allocate(ctx context.Context, entryID int64, rewards []NewAllocation) ([]payout.Allocation, error)
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
	return s.enter(ctx, eventID, memberID, func(ctx context.Context, tx Tx) (Earned, error) {
		c, day := tx.Campaign(), DayOf(tx.Now())
		if c.Kind != Attendance {
			return Earned{}, ErrNotOpen
		}
		if e, found, err := tx.Existing(ctx, string(day), 1); found || err != nil {
			return e, err
		}
		if !c.Open(tx.Now()) {
			return Earned{}, ErrNotOpen
		}
		yesterday, _, err := tx.Existing(ctx, string(day.Before()), 1)
		if err != nil {
			return Earned{}, err
		}
		e := Entry{EventID: eventID, MemberID: memberID, Period: string(day), DrawNo: 1, Streak: yesterday.Streak + 1, At: tx.Now()}
		if e.ID, err = tx.Insert(ctx, e); err != nil {
			return Earned{}, err
		}
		paid, err := tx.PaidMilestones(ctx)
		if err != nil {
			return Earned{}, err
		}
		return allocate(ctx, tx, Earned{Entry: e}, attendanceRewards(&c, e, day, paid))
	})
}

func attendanceRewards(c *Campaign, e Entry, day Day, paid map[int]bool) (out []NewAllocation) {
	if c.Daily != nil {
		out = append(out, NewAllocation{Reward: *c.Daily, Reason: ForDay, Key: keyDaily(e.EventID, e.MemberID, day)})
	}
	for _, m := range c.reached(e.Streak, paid) {
		out = append(out, NewAllocation{
			Reward: m.Reward, Reason: ForMilestone, Milestone: m.Day, Key: keyBonus(e.EventID, e.MemberID, day, m.Day),
		})
	}
	return out
}

// Draw draws a prize. With one draw per member and period a repeated request returns the same
// entry; with more, each draw needs an idempotency key.
func (s *Service) Draw(ctx context.Context, eventID, memberID, idempotencyKey string) (Earned, error) {
	return s.enter(ctx, eventID, memberID, func(ctx context.Context, tx Tx) (Earned, error) {
		c := tx.Campaign()
		if c.Kind != Random {
			return Earned{}, ErrNotOpen
		}
		period := c.drawPeriod(tx.Now())
		key, repeated, found, err := earlierDraw(ctx, tx, &c, period, memberID, idempotencyKey)
		if found || err != nil {
			return repeated, err
		}
		if !c.Open(tx.Now()) {
			return Earned{}, ErrNotOpen
		}
		made, err := tx.Entries(ctx, period)
		if err != nil {
			return Earned{}, err
		}
		if made >= c.DrawsPerMember {
			return Earned{}, ErrDrawsUsedUp
		}
		e := Entry{EventID: eventID, MemberID: memberID, Period: period, DrawNo: made + 1, At: tx.Now()}
		if e.ID, err = tx.Insert(ctx, e); err != nil {
			return Earned{}, err
		}
		if err := tx.Keep(ctx, key, e.ID); err != nil {
			return Earned{}, err
		}
		return s.drawPrize(ctx, tx, &c, e)
	})
}

// earlierDraw finds the entry of a repeated request.
func earlierDraw(
	ctx context.Context, tx Tx, c *Campaign, period, memberID, idempotencyKey string,
) (key *idempotency.Key, e Earned, found bool, err error) {
	if c.DrawsPerMember == 1 {
		e, found, err = tx.Existing(ctx, period, 1)
		return nil, e, found, err
	}
	if key, err = idempotency.Require(memberID, "reward.draw/"+c.EventID, idempotencyKey, c.EventID); err != nil {
		return nil, Earned{}, false, err
	}
	e, found, err = tx.Replay(ctx, key)
	return key, e, found, err
}

// drawPrize takes a prize by weight. A prize whose last one was just taken leaves the weights, so
// that the draw is repeated among the others.
func (s *Service) drawPrize(ctx context.Context, tx Tx, c *Campaign, e Entry) (Earned, error) {
	prizes := append([]Prize(nil), c.Prizes...)
	for {
		p := pick(prizes, s.random)
		if p == nil {
			return Earned{Entry: e}, nil // all are gone: the draw counts and wins nothing
		}
		taken, err := tx.Take(ctx, e.ID, p)
		if err != nil {
			return Earned{}, err
		}
		if !taken {
			none := int64(0)
			p.Stock = &none
			continue
		}
		e.PrizeID = p.ID
		if p.Blank {
			return Earned{Entry: e, Prize: p}, nil
		}
		return allocate(ctx, tx, Earned{Entry: e, Prize: p}, []NewAllocation{
			{Reward: p.Reward, Reason: ForDraw, Key: keyDraw(e.EventID, e.MemberID, e.ID)},
		})
	}
}

func allocate(ctx context.Context, tx Tx, e Earned, rewards []NewAllocation) (Earned, error) {
	var err error
	e.Rewards, err = tx.Allocate(ctx, e.ID, rewards)
	return e, err
}

// enter runs an entry and wakes the payouts.
func (s *Service) enter(ctx context.Context, eventID, memberID string, fn func(context.Context, Tx) (Earned, error)) (Earned, error) {
	e, err := s.store.Enter(ctx, eventID, memberID, fn)
	if err == nil && len(e.Rewards) > 0 && !e.Repeated {
		s.earned()
	}
	return e, err
}
