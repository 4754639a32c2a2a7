// Package figures counts the Kafka events of other services, in total and by minute, for each event
// (performance, campaign or promotion).
package figures

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"urr.guru/proto/events"
)

// Figure is the name of a number that is counted, as the database stores it.
type Figure string

// The figures of sales, payments, transfers, memberships, campaigns and promotions that are not
// money. Most Kafka events add 1.
const (
	Created   Figure = "created"
	Confirmed Figure = "confirmed"
	Cancelled Figure = "cancelled"
	Expired   Figure = "expired"
	Rejected  Figure = "rejected"
	SeatsSold Figure = "seats_sold"
	// Comps are the places given away by the organiser, less those that ended.
	Comps Figure = "comps"
	// Voided are the places whose tickets an operator has voided, sold or given away.
	Voided Figure = "voided"
	// CheckedIn are the tickets used, less those made valid again.
	CheckedIn        Figure = "checked_in"
	PaymentsDeclined Figure = "payments_declined"

	TransfersCompleted Figure = "transfers_completed"
	TransfersCancelled Figure = "transfers_cancelled"
	TransfersRejected  Figure = "transfers_rejected"

	MembershipsActivated Figure = "memberships_activated"
	MembershipsRejected  Figure = "memberships_rejected"
	MembershipsEnded     Figure = "memberships_ended"

	// Entries counts each day that a member attended a campaign, and each entry in a prize draw.
	Entries          Figure = "entries"
	RewardsPaid      Figure = "rewards_paid"
	RewardsFailed    Figure = "rewards_failed"
	RewardsCancelled Figure = "rewards_cancelled"
	PointsPaid       Figure = "points_paid"

	RequestsSucceeded Figure = "requests_succeeded"
	RequestsRejected  Figure = "requests_rejected"
	RequestsFailed    Figure = "requests_failed"
)

// Key identifies a figure of one event in one minute. EventID is "" for figures of the whole shop,
// such as memberships. Currency is "" for figures that are not money.
type Key struct {
	EventID  string
	Minute   time.Time
	Figure   Figure
	Currency string
}

// Sum is the value of a figure, and the number of Kafka events that added to it. Money is in minor
// units.
type Sum struct{ Amount, Times int64 }

// Add returns the sum of both.
func (s Sum) Add(o Sum) Sum { return Sum{Amount: s.Amount + o.Amount, Times: s.Times + o.Times} }

// Delta is what a batch of Kafka events adds to the figures. A nil map is empty.
type Delta map[Key]Sum

// add adds the amount of one Kafka event to a figure.
func (d *Delta) add(eventID string, at time.Time, figure Figure, currency string, amount int64) {
	if *d == nil {
		*d = Delta{}
	}
	key := Key{EventID: eventID, Minute: at.UTC().Truncate(time.Minute), Figure: figure, Currency: currency}
	(*d)[key] = (*d)[key].Add(Sum{Amount: amount, Times: 1})
}

// Keys returns the keys sorted, so that concurrent transactions lock rows in the same order.
func (d Delta) Keys() []Key {
	return slices.SortedFunc(maps.Keys(d), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.EventID, b.EventID), a.Minute.Compare(b.Minute), cmp.Compare(a.Figure, b.Figure), cmp.Compare(a.Currency, b.Currency))
	})
}

// Counted reports whether Kafka events of a type add to the figures. Other types are skipped, since
// the services that publish them may be newer than this one.
func Counted(eventType string) bool {
	_, counted := figureOf[eventType]
	return counted || slices.Contains([]string{events.PaymentConfirmed, events.PaymentRefunded, events.TicketsCheckedIn, events.TicketsVoided}, eventType)
}
