package campaign

import (
	"time"

	"urr.guru/pkg/idempotency"
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

// NewAllocation is a reward that an entry earns.
type NewAllocation struct {
	Reward

	Reason    Reason
	Milestone int // days, ForMilestone only
	Key       string
}

// Entering is a way to take part in a campaign.
type Entering struct {
	// Reads says what Decide needs to know, or why nobody takes part in this way.
	Reads func(c *Campaign, now time.Time) (Reads, error)
	// Decide is called unless the request repeats an earlier one.
	Decide func(s Standing) (*Change, error)
}

// Reads says what is read about a member for a decision.
type Reads struct {
	// Period of the entry.
	Period string
	// Key tells a repeated request; nil: there is one entry per period, which answers all requests.
	Key *idempotency.Key
	// Closed refuses requests that repeat no earlier one; nil: the campaign is open.
	Closed error
	// Before is the period whose entry has the streak that a new one continues; empty: none.
	Before string
}

// Standing is what is known of a member while it is locked.
type Standing struct {
	Campaign Campaign
	Now      time.Time
	// Made is the number of entries in the period.
	Made int
	// Streak is that of the entry in the period before, 0 without one; Reached are the milestones
	// that were reached before. Both are read only where a streak is continued.
	Streak  int
	Reached map[int]bool
}

// Change is a new entry with what it earns.
type Change struct {
	Entry   Entry
	Rewards []NewAllocation
	// Draw draws the prize of the entry, nil when all are gone. take takes a prize from the stock, and
	// reports whether one was left. No Draw: nothing is drawn.
	Draw func(take func(p *Prize) (bool, error)) (*Prize, error)
}

// attending records the attendance of the present day.
func attending(eventID, memberID string) Entering {
	return Entering{
		Reads: func(c *Campaign, now time.Time) (Reads, error) {
			if c.Kind != Attendance {
				return Reads{}, ErrNotOpen
			}
			day := DayOf(now)
			return Reads{Period: string(day), Before: string(day.Before()), Closed: c.closed(now)}, nil
		},
		Decide: func(s Standing) (*Change, error) {
			day := DayOf(s.Now)
			e := Entry{EventID: eventID, MemberID: memberID, Period: string(day), DrawNo: 1, Streak: s.Streak + 1, At: s.Now}
			return &Change{Entry: e, Rewards: attendanceRewards(&s.Campaign, e, day, s.Reached)}, nil
		},
	}
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

// drawing draws a prize.
func drawing(eventID, memberID, idempotencyKey string, random func(n int64) int64) Entering {
	return Entering{
		Reads: func(c *Campaign, now time.Time) (r Reads, err error) {
			if c.Kind != Random {
				return Reads{}, ErrNotOpen
			}
			r = Reads{Period: c.drawPeriod(now), Closed: c.closed(now)}
			if c.DrawsPerMember != 1 {
				r.Key, err = idempotency.Require(memberID, "reward.draw/"+c.EventID, idempotencyKey, c.EventID)
			}
			return r, err
		},
		Decide: func(s Standing) (*Change, error) {
			if s.Made >= s.Campaign.DrawsPerMember {
				return nil, ErrDrawsUsedUp
			}
			e := Entry{EventID: eventID, MemberID: memberID, Period: s.Campaign.drawPeriod(s.Now), DrawNo: s.Made + 1, At: s.Now}
			return &Change{Entry: e, Draw: func(take func(*Prize) (bool, error)) (*Prize, error) {
				return drawPrize(s.Campaign.Prizes, random, take)
			}}, nil
		},
	}
}

// drawPrize takes a prize by weight. A prize whose last one was just taken leaves the weights, so
// that the draw is repeated among the others.
func drawPrize(prizes []Prize, random func(n int64) int64, take func(*Prize) (bool, error)) (*Prize, error) {
	prizes = append([]Prize(nil), prizes...)
	for {
		p := pick(prizes, random)
		if p == nil {
			return nil, nil //nolint:nilnil // all are gone: the draw counts and wins nothing
		}
		taken, err := take(p)
		if err != nil || taken {
			return p, err
		}
		none := int64(0)
		p.Stock = &none
	}
}

// PrizeRewards are what an entry earns by the prize that it has drawn, nil for none.
func PrizeRewards(e Entry, p *Prize) []NewAllocation {
	if p == nil || p.Blank {
		return nil
	}
	return []NewAllocation{{Reward: p.Reward, Reason: ForDraw, Key: keyDraw(e.EventID, e.MemberID, e.ID)}}
}
