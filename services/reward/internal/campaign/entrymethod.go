package campaign

import (
	"slices"
	"time"

	"urr.guru/pkg/idempotency"
)

// Reason says why a member has earned an allocation.
type Reason string

// The reasons of allocations.
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
	Milestone int // in days, with ForMilestone only
	Key       string
}

// EntryMethod is a way to take part in a campaign: attendance, or the draw of a prize.
type EntryMethod struct {
	// Query says what Decide needs to know about the member. It fails if the campaign does not
	// offer this method.
	Query func(c *Campaign, now time.Time) (MemberQuery, error)
	// Decide returns the new entry and its rewards. It is not called for a repeated request.
	Decide func(s MemberState) (*NewEntry, error)
}

// MemberQuery says what must be read about a member before EntryMethod.Decide is called.
type MemberQuery struct {
	Period string // of the new entry: a day, or the whole campaign
	// Key recognises a repeated request, even after the period has ended; nil: the client sent no key.
	// Once means that a member has one entry per period, which further requests return.
	Key  *idempotency.Key
	Once bool
	// Closed is the error of a new request while the campaign is not open; nil: the campaign is open.
	Closed error
	// Before is the previous period, whose streak a new entry continues; empty: there are no streaks.
	Before string
}

// MemberState is what the store knows about a member in a campaign. It is read after the member was
// locked.
type MemberState struct {
	Campaign Campaign
	Now      time.Time
	// Made is the number of the member's entries in the period.
	Made int
	// Streak is the streak at the end of the previous period, 0 without an entry in it. Reached has
	// the milestones that were reached before. Both are read only if MemberQuery.Before is set.
	Streak  int
	Reached map[int]bool
}

// NewEntry is a new entry with its rewards.
type NewEntry struct {
	Entry   Entry
	Rewards []NewAllocation
	// Draw draws the prize of the entry; it returns nil when all prizes are gone. take takes a prize
	// from the stock and reports whether one was left. A nil Draw draws nothing.
	Draw func(take func(p *Prize) bool) *Prize
}

// attendance is the entry method that records the attendance of the present day.
func attendance(eventID, memberID, idempotencyKey string) EntryMethod {
	return EntryMethod{
		Query: func(c *Campaign, now time.Time) (q MemberQuery, err error) {
			if c.Kind != Attendance {
				return MemberQuery{}, ErrNotOpen
			}
			day := DayOf(now)
			q = MemberQuery{Period: string(day), Before: string(day.Before()), Closed: c.requireOpen(now), Once: true}
			q.Key, err = idempotency.New(memberID, "reward.attend/"+c.EventID, idempotencyKey, c.EventID)
			return q, err
		},
		Decide: func(s MemberState) (*NewEntry, error) {
			day := DayOf(s.Now)
			e := Entry{EventID: eventID, MemberID: memberID, Period: string(day), DrawNo: 1, Streak: s.Streak + 1, At: s.Now}
			return &NewEntry{Entry: e, Rewards: attendanceRewards(&s.Campaign, e, day, s.Reached)}, nil
		},
	}
}

func attendanceRewards(c *Campaign, e Entry, day Day, paid map[int]bool) (out []NewAllocation) {
	if c.Daily != nil {
		out = append(out, NewAllocation{Reward: *c.Daily, Reason: ForDay, Key: keyDaily(e.EventID, e.MemberID, day)})
	}
	for _, m := range c.reachedMilestones(e.Streak, paid) {
		out = append(out, NewAllocation{
			Reward: m.Reward, Reason: ForMilestone, Milestone: m.Day, Key: keyMilestone(e.EventID, e.MemberID, day, m.Day),
		})
	}
	return out
}

// prizeDraw is the entry method that draws a prize.
func prizeDraw(eventID, memberID, idempotencyKey string, random func(n int64) int64) EntryMethod {
	return EntryMethod{
		Query: func(c *Campaign, now time.Time) (r MemberQuery, err error) {
			if c.Kind != Random {
				return MemberQuery{}, ErrNotOpen
			}
			r = MemberQuery{Period: c.drawPeriod(now), Closed: c.requireOpen(now), Once: c.DrawsPerMember == 1}
			makeKey := idempotency.Require
			if r.Once {
				makeKey = idempotency.New
			}
			r.Key, err = makeKey(memberID, "reward.draw/"+c.EventID, idempotencyKey, c.EventID)
			return r, err
		},
		Decide: func(s MemberState) (*NewEntry, error) {
			if s.Made >= s.Campaign.DrawsPerMember {
				return nil, ErrDrawsUsedUp
			}
			e := Entry{EventID: eventID, MemberID: memberID, Period: s.Campaign.drawPeriod(s.Now), DrawNo: s.Made + 1, At: s.Now}
			return &NewEntry{Entry: e, Draw: func(take func(*Prize) bool) *Prize {
				return drawPrize(s.Campaign.Prizes, random, take)
			}}, nil
		},
	}
}

// drawPrize picks a prize at random by weight and takes it from the stock. If another draw has just
// taken the last one of this prize, drawPrize picks again among the other prizes.
func drawPrize(prizes []Prize, random func(n int64) int64, take func(*Prize) bool) *Prize {
	prizes = slices.Clone(prizes)
	for {
		p := pickPrize(prizes, random)
		if p == nil || take(p) { // nil: all are gone, the draw counts and wins nothing
			return p
		}
		p.Stock = new(int64(0))
	}
}

// PrizeRewards returns the rewards for the prize p that the entry e has drawn, nil for none.
func PrizeRewards(e Entry, p *Prize) []NewAllocation {
	if p == nil || p.Blank {
		return nil
	}
	return []NewAllocation{{Reward: p.Reward, Reason: ForDraw, Key: keyDraw(e.EventID, e.MemberID, e.ID)}}
}
