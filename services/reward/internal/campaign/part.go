package campaign

import (
	"slices"
	"time"
)

// Participation is what a member has done and earned in a campaign.
type Participation struct {
	Campaign   Campaign
	Entries    []Entry         // the latest 400, newest first
	Earned     []RewardedEntry // the entries of PresentEntries, with their rewards
	Milestones []int           // Milestone.Day of those that the member has reached
	Now        time.Time
}

// Days returns the days of attendance, oldest first.
func (p *Participation) Days() []string {
	var days []string
	if p.Campaign.Kind == Attendance {
		for _, e := range p.Entries {
			days = append(days, e.Period)
		}
	}
	slices.Reverse(days)
	return days
}

// Streak returns how many days in a row the member has attended, up to today. Without attendance
// today it counts up to yesterday, since the member can still continue the streak.
func (p *Participation) Streak() int {
	if p.Campaign.Kind != Attendance || len(p.Entries) == 0 {
		return 0
	}
	last, today := p.Entries[0], DayOf(p.Now)
	if last.Period == string(today) || last.Period == string(today.Before()) {
		return last.Streak
	}
	return 0
}

// DrawsLeft returns how many draws the member has in the present period.
func (p *Participation) DrawsLeft() int {
	if p.Campaign.Kind != Random || !p.Campaign.Open(p.Now) {
		return 0
	}
	period, made := p.Campaign.drawPeriod(p.Now), 0
	for _, e := range p.Entries { // Entries may lack early draws, so use the highest DrawNo
		if e.Period == period {
			made = max(made, e.DrawNo)
		}
	}
	return max(0, p.Campaign.DrawsPerMember-made)
}

const maxPresent = 20 // the most entries that PresentEntries returns

// PresentEntries returns the member's present entries, newest first. In an attendance campaign this
// is today's; in a campaign of draws, those of the present period (a day, or the whole campaign);
// in a campaign for the winners of a promotion, all.
func (p *Participation) PresentEntries() (out []Entry) {
	period := p.Campaign.drawPeriod(p.Now)
	if p.Campaign.Kind == Attendance {
		period = string(DayOf(p.Now))
	}
	for _, e := range p.Entries {
		if (e.Period == period || p.Campaign.Kind == RequestWinners) && len(out) < maxPresent {
			out = append(out, e)
		}
	}
	return out
}
