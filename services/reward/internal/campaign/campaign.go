// Package campaign decides which rewards members earn: by attending, by drawing prizes, or by
// winning in a promotion. Package payout pays the rewards.
package campaign

import (
	"fmt"
	"time"
	"unicode/utf8"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/text"
	"urr.guru/services/reward/internal/payout"
)

// Kind is the kind of a campaign.
type Kind string

// The kinds of campaigns.
const (
	Attendance     Kind = "ATTENDANCE"
	Random         Kind = "RANDOM"
	RequestWinners Kind = "REQUEST_WINNERS"
)

// Period says whether a member has DrawsPerMember draws per day or in the whole campaign.
type Period string

// The periods.
const (
	WholeCampaign Period = "CAMPAIGN"
	PerDay        Period = "DAY" // a day in Korea
)

// Reward is what a member is paid: points or a coupon.
type Reward struct {
	Kind payout.Kind
	// Value is the number of points, or the coupon's number.
	Value int64
}

// Milestone is a reward for attending on Day days in a row.
type Milestone struct {
	Reward

	Day int
	// Every means that the reward is paid at each multiple of Day. Otherwise it is paid once.
	Every bool
}

// reachedMilestones returns the milestones that a streak of this length reaches. It leaves out
// those that pay only once and that the member has reached before.
func (c *Campaign) reachedMilestones(streak int, before map[int]bool) (out []Milestone) {
	for _, m := range c.Milestones {
		if m.Every && streak%m.Day == 0 || !m.Every && streak == m.Day && !before[m.Day] {
			out = append(out, m)
		}
	}
	return out
}

// KindNone is the kind of a prize that pays nothing.
const KindNone = "NONE"

// Prize is an outcome of a draw.
type Prize struct {
	ID     int64
	Name   string
	Blank  bool // nothing is paid
	Reward Reward
	Weight int64
	// Initial is how many of this prize there were at first, Stock how many are left; nil: no limit.
	Stock, Initial *int64
}

// Campaign is an offer of rewards: for attendance, by prize draws, or to a promotion's winners.
type Campaign struct {
	EventID           string
	Title             string
	Kind              Kind
	OpensAt, ClosesAt time.Time
	// PromotionID is the id of the promotion whose winners are rewarded.
	PromotionID string
	// Daily is the reward of each attendance, or of each winner; nil: none.
	Daily          *Reward
	Milestones     []Milestone
	Prizes         []Prize
	DrawsPerMember int
	Period         Period
	CancelledAt    time.Time // zero: not cancelled
	Expected       plan.Expected
}

// Status is the status of a campaign at a time.
type Status string

// The statuses of a campaign.
const (
	Scheduled Status = "SCHEDULED"
	Open      Status = "OPEN"
	Closed    Status = "CLOSED"
	Cancelled Status = "CANCELLED"
)

func (c *Campaign) Status(now time.Time) Status {
	switch {
	case !c.CancelledAt.IsZero():
		return Cancelled
	case now.Before(c.OpensAt):
		return Scheduled
	case now.Before(c.ClosesAt):
		return Open
	default:
		return Closed
	}
}

// Open reports whether members may take part.
func (c *Campaign) Open(now time.Time) bool {
	return c.Status(now) == Open
}

func (c *Campaign) requireOpen(now time.Time) error {
	if c.Open(now) {
		return nil
	}
	return ErrNotOpen
}

func (c *Campaign) drawPeriod(now time.Time) string {
	if c.Period == PerDay {
		return string(DayOf(now))
	}
	return string(WholeCampaign)
}

// Limits of a new campaign.
const (
	maxParts = 100 // the most milestones, and the most prizes
	maxTitle = 200 // characters of the title
	// maxOdds is the largest ratio of the sum of all weights to the weight of a prize. Nobody would
	// win a rarer prize.
	maxOdds = 1_000_000_000
)

// Validate checks a new campaign. Its error has the field names of the API.
func (c *Campaign) Validate() error {
	var v violations
	v.check("title", text.HasVisible(c.Title) && utf8.RuneCountInString(c.Title) <= maxTitle, fmt.Sprintf("must have 1 to %d characters, and something visible", maxTitle))
	v.check("closesAt", c.ClosesAt.After(c.OpensAt), "must be after opensAt")
	v.check("milestones", len(c.Milestones) <= maxParts, fmt.Sprintf("must be %d at most", maxParts))
	v.check("prizes", len(c.Prizes) <= maxParts, fmt.Sprintf("must be %d at most", maxParts))
	v = append(v, c.Expected.Check()...)
	v.check("promotionId", c.PromotionID == "" || c.Kind == RequestWinners, "must be absent unless the kind is REQUEST_WINNERS")
	switch c.Kind {
	case Attendance:
		v.check("daily", c.Daily != nil || len(c.Milestones) > 0, "or milestones must be set for ATTENDANCE")
		v.check("prizes", len(c.Prizes) == 0, "must be empty for ATTENDANCE")
	case Random:
		v.check("prizes", len(c.Prizes) > 0, "must not be empty for RANDOM")
		v.check("daily", c.Daily == nil, "must be absent for RANDOM")
		v.check("milestones", len(c.Milestones) == 0, "must be empty for RANDOM")
	case RequestWinners:
		v.check("promotionId", c.PromotionID != "", "must be set for REQUEST_WINNERS")
		v.check("daily", c.Daily != nil, "must be set for REQUEST_WINNERS: the reward of each winner")
		v.check("prizes", len(c.Prizes) == 0, "must be empty for REQUEST_WINNERS")
	default:
		v.check("kind", false, "must be ATTENDANCE, RANDOM or REQUEST_WINNERS")
	}
	c.validateParts(&v)
	return v.err()
}

func (c *Campaign) validateParts(v *violations) {
	days, length := make(map[int]bool), c.lengthInDays()
	for i, m := range c.Milestones {
		path := fmt.Sprintf("milestones[%d].day", i)
		v.check(path, m.Day > 0 && !days[m.Day], "must be above 0 and named once")
		v.check(path, m.Day <= length || !c.ClosesAt.After(c.OpensAt), fmt.Sprintf("must not be above %d, the days of the campaign", length))
		days[m.Day] = true
	}
	names, weights := make(map[string]bool), int64(0)
	for _, p := range c.Prizes {
		weights += p.Weight
	}
	for i, p := range c.Prizes {
		v.check(fmt.Sprintf("prizes[%d].weight", i), p.Weight >= weights/maxOdds, "must be at least a billionth of all weights: nobody could win it")
		v.check(fmt.Sprintf("prizes[%d].stock", i), p.inStock(), "must be above 0, or absent: nobody could win it")
		v.check(fmt.Sprintf("prizes[%d].name", i), p.Name != "" && !names[p.Name], "must be set and named once")
		v.check(fmt.Sprintf("prizes[%d].value", i), p.Blank || p.Reward.Value > 0, "must be above 0 unless the kind is NONE")
		names[p.Name] = true
	}
}

// lengthInDays returns the number of days in Korea on which the campaign is open.
func (c *Campaign) lengthInDays() int {
	first, last := c.OpensAt.In(korea), c.ClosesAt.Add(-time.Nanosecond).In(korea)
	midnight := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, korea) }
	return int(midnight(last).Sub(midnight(first))/(24*time.Hour)) + 1
}

type violations []errs.Field

func (v *violations) check(path string, ok bool, message string) {
	if !ok {
		*v = append(*v, errs.Field{Path: path, Message: message})
	}
}

func (v *violations) err() error {
	if len(*v) == 0 {
		return nil
	}
	return errs.ErrInvalidRequest.WithFields(*v...)
}
