package figures

import "time"

// EventCounts are the totals of an event's reservations over all days. UpdatedAt is zero if none
// was counted.
type EventCounts struct {
	Counts
	UpdatedAt time.Time
}

// EventRewards are the totals of a campaign's rewards. UpdatedAt is zero if none was counted.
type EventRewards struct {
	RewardCounts
	UpdatedAt time.Time
}

// EventRequests are the totals of a promotion's requests. UpdatedAt is zero if none was counted.
type EventRequests struct {
	RequestCounts
	UpdatedAt time.Time
}

// EventRevenue is an event's revenue in one currency.
type EventRevenue struct {
	Currency string
	Revenue
}

// Net is the revenue after refunds, in minor units.
func (r Revenue) Net() int64 { return r.Confirmed - r.Refunded }
