package campaign

import "time"

// korea has no daylight saving time, so its days always have 24 hours.
var korea = time.FixedZone("KST", 9*60*60) //nolint:gochecknoglobals // a constant

// dayFormat is how days are kept and shown.
const dayFormat = time.DateOnly

// Day is a calendar day in Korea, as 2026-03-07.
type Day string

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return Day(t.In(korea).Format(dayFormat)) }

// Before returns the day before.
func (d Day) Before() Day {
	t, err := time.Parse(dayFormat, string(d))
	if err != nil {
		return "" // no day is before a malformed one
	}
	return Day(t.AddDate(0, 0, -1).Format(dayFormat))
}

// reached returns the milestones that a streak has reached, apart from those that are paid once and
// that the member has reached before.
func (c *Campaign) reached(streak int, before map[int]bool) (out []Milestone) {
	for _, m := range c.Milestones {
		if m.Every && streak%m.Day == 0 || !m.Every && streak == m.Day && !before[m.Day] {
			out = append(out, m)
		}
	}
	return out
}
