package figures

import "time"

// EventCounts are an event's totals; UpdatedAt is zero when nothing has happened yet.
type EventCounts struct {
	Counts
	UpdatedAt time.Time
}

// EventRevenue is an event's money in one currency.
type EventRevenue struct {
	Currency string
	Revenue
}

// Net is what is left after refunds, minor units.
func (r Revenue) Net() int64 { return r.Confirmed - r.Refunded }
