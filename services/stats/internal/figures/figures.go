// Package figures counts the Kafka events of other services: totals per event (performance,
// campaign or promotion), and their course by minute.
package figures

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"urr.guru/proto/events"
)

// Figure names what is counted. The names are stored.
type Figure string

// What is counted of sales, payments, transfers, memberships, campaigns and promotions. For what
// is no money the sum of the values is the figure; most events add 1.
const (
	Created   Figure = "created"
	Confirmed Figure = "confirmed"
	Cancelled Figure = "cancelled"
	Expired   Figure = "expired"
	Rejected  Figure = "rejected"
	SeatsSold Figure = "seats_sold"
	// CheckedIn are the tickets used, less those made valid again.
	CheckedIn        Figure = "checked_in"
	PaymentsDeclined Figure = "payments_declined"

	TransfersCompleted Figure = "transfers_completed"
	TransfersCancelled Figure = "transfers_cancelled"
	TransfersRejected  Figure = "transfers_rejected"

	MembershipsActivated Figure = "memberships_activated"
	MembershipsRejected  Figure = "memberships_rejected"
	MembershipsEnded     Figure = "memberships_ended"

	// Entries of campaigns: days attended, prizes drawn for.
	Entries          Figure = "entries"
	RewardsPaid      Figure = "rewards_paid"
	RewardsFailed    Figure = "rewards_failed"
	RewardsCancelled Figure = "rewards_cancelled"
	PointsPaid       Figure = "points_paid"

	RequestsSucceeded Figure = "requests_succeeded"
	RequestsRejected  Figure = "requests_rejected"
	RequestsFailed    Figure = "requests_failed"
)

// Key says of which event, in which minute, a figure is. An EventID of "" is the shop, for what
// belongs to no event, such as memberships. Currency is "" for what is no money.
type Key struct {
	EventID  string
	Minute   time.Time
	Figure   Figure
	Currency string
}

// Sum has the sum of what was counted, and how many Kafka events added to it. Money is in minor
// units.
type Sum struct{ Amount, Times int64 }

// Add returns the sum of both.
func (s Sum) Add(o Sum) Sum { return Sum{Amount: s.Amount + o.Amount, Times: s.Times + o.Times} }

// Delta is what a batch of Kafka events adds to the figures. A nil map is empty.
type Delta map[Key]Sum

// add adds one Kafka event's part to a figure.
func (d *Delta) add(eventID string, at time.Time, figure Figure, currency string, amount int64) {
	if *d == nil {
		*d = Delta{}
	}
	key := Key{EventID: eventID, Minute: at.UTC().Truncate(time.Minute), Figure: figure, Currency: currency}
	(*d)[key] = (*d)[key].Add(Sum{Amount: amount, Times: 1})
}

// Keys returns the keys in an order in which concurrent transactions can lock rows.
func (d Delta) Keys() []Key {
	return slices.SortedFunc(maps.Keys(d), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.EventID, b.EventID), a.Minute.Compare(b.Minute), cmp.Compare(a.Figure, b.Figure), cmp.Compare(a.Currency, b.Currency))
	})
}

// Counted reports whether Kafka events of a type add to the figures. Other types are skipped, since
// the services that publish them may be newer than this one.
func Counted(eventType string) bool {
	_, counted := figureOf[eventType]
	return counted || slices.Contains([]string{events.PaymentConfirmed, events.PaymentRefunded, events.TicketsCheckedIn}, eventType)
}
