package campaign

import (
	"slices"
	"time"
)

// Part is what a member has done in a campaign.
type Part struct {
	Campaign Campaign
	// Entries are the latest 400, newest first.
	Entries []Entry
	// Earned are the entries that count at present, see Present.
	Earned []Earned
	// Milestones are those reached, in days.
	Milestones []int
	Now        time.Time
}

// Days returns the days of attendance, oldest first.
func (p *Part) Days() []string {
	var days []string
	if p.Campaign.Kind == Attendance {
		for _, e := range p.Entries {
			days = append(days, e.Period)
		}
	}
	slices.Reverse(days)
	return days
}

// Streak returns the consecutive days up to today, or up to yesterday while today's attendance can
// still continue them.
func (p *Part) Streak() int {
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
func (p *Part) DrawsLeft() int {
	if p.Campaign.Kind != Random || !p.Campaign.Open(p.Now) {
		return 0
	}
	period, made := p.Campaign.drawPeriod(p.Now), 0
	for _, e := range p.Entries { // the number of the latest draw: there may be more than are listed
		if e.Period == period {
			made = max(made, e.DrawNo)
		}
	}
	return max(0, p.Campaign.DrawsPerMember-made)
}

// maxPresent is the number of present entries that are shown.
const maxPresent = 20

// Present returns the entries that count at present, newest first: today's attendance, the draws of
// the present period, or the wins.
func (p *Part) Present() (out []Entry) {
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
