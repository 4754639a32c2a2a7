package campaign

import "time"

// korea has no daylight saving time, so its days always have 24 hours.
var korea = time.FixedZone("KST", 9*60*60) //nolint:gochecknoglobals // a constant

// dayFormat is the layout of a Day: year-month-day.
const dayFormat = time.DateOnly

// Day is a calendar day in Korea, such as 2026-03-07.
type Day string

// DayOf returns the day in Korea at time t.
func DayOf(t time.Time) Day { return Day(t.In(korea).Format(dayFormat)) }

// Before returns the day before d.
func (d Day) Before() Day {
	t, err := time.Parse(dayFormat, string(d))
	if err != nil {
		return "" // no day is before a malformed one
	}
	return Day(t.AddDate(0, 0, -1).Format(dayFormat))
}
