// Package figures counts domain events: totals per event and day.
package figures

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"urr.guru/proto/events"
)

// Seoul is the time zone of days: that of the organisers. It has no daylight saving time, so a
// fixed offset needs no time zone database in the image.
var Seoul = time.FixedZone("Asia/Seoul", 9*60*60)

// Counted reports whether a type of event adds to the figures. Others are skipped, since producers
// may be upgraded first.
func Counted(eventType string) bool {
	switch eventType {
	case events.ReservationCreated, events.ReservationConfirmed, events.ReservationCancelled, events.ReservationExpired, events.ReservationRejected,
		events.PaymentConfirmed, events.PaymentRefunded,
		events.RewardPaid, events.RewardFailed, events.RewardCancelled,
		events.RequestSucceeded, events.RequestRejected, events.RequestFailed:
		return true
	default:
		return false
	}
}

// ReasonRefunded is the reason when a sold reservation is cancelled by its refund.
const ReasonRefunded = "REFUNDED"

// Money that a transfer moves between two visitors is not revenue: neither the buyer's payment (its
// type) nor the partial refund that pays the seller (its cause).
const (
	PaymentTransfer = "transfer"
	CauseTransfer   = "TRANSFER"
)

// KindPoint is the kind of the rewards that are paid in points.
const KindPoint = "POINT"

// Reservation is one event of a reservation's life.
type Reservation struct {
	Type, EventID, Reason string
	Quantity              int64
	At                    time.Time
}

// Payment is one event of a payment's life; Amount in minor units, of the refund when it is one.
type Payment struct {
	Type, PaymentType, EventID, Currency string
	// Cause of a refund.
	Cause  string
	Amount int64
	At     time.Time
}

// Reward is one event of a reward's life. Value of a reward in points is their number.
type Reward struct {
	Type, EventID, Kind string
	Value               int64
	At                  time.Time
}

// Request is the end of a request to a promotion.
type Request struct {
	Type, EventID string
	At            time.Time
}

// Day is the key of counts. Date is midnight UTC of the calendar day in Seoul.
type Day struct {
	EventID string
	Date    time.Time
}

// Counts of one event and day.
type Counts struct {
	Created, Confirmed, Cancelled, Expired, Rejected, SeatsSold int64
}

// RevenueKey is the event, day and currency for which revenue is counted.
type RevenueKey struct {
	Day
	Currency string
}

// Revenue in minor units, and how many payments and refunds it came from.
type Revenue struct {
	Confirmed, Refunded, Payments, Refunds int64
}

// RewardCounts are what happened to the rewards of one campaign and day. One that failed or was
// cancelled may be paid later, and then counts as both.
type RewardCounts struct {
	Paid, Failed, Cancelled, PointsPaid int64
}

// RequestCounts are how the requests to one promotion and day ended. One that failed and was begun
// anew by an operator counts again when it ends.
type RequestCounts struct {
	Succeeded, Rejected, Failed int64
}

// Delta is what a batch of events adds. The zero value is empty and ready.
type Delta struct {
	Counts   map[Day]Counts
	Revenue  map[RevenueKey]Revenue
	Rewards  map[Day]RewardCounts
	Requests map[Day]RequestCounts
}

// AddReservation counts one event of a reservation.
func (d *Delta) AddReservation(r Reservation) {
	key := day(r.EventID, r.At)
	c := d.Counts[key]
	switch r.Type {
	case events.ReservationCreated:
		c.Created++
	case events.ReservationConfirmed:
		c.Confirmed++
		c.SeatsSold += r.Quantity
	case events.ReservationCancelled:
		c.Cancelled++
		if r.Reason == ReasonRefunded {
			c.SeatsSold -= r.Quantity
		}
	case events.ReservationExpired:
		c.Expired++
	case events.ReservationRejected:
		c.Rejected++
	default:
		return
	}
	if d.Counts == nil {
		d.Counts = map[Day]Counts{}
	}
	d.Counts[key] = c
}

// AddPayment counts one event of a payment. Transfers are ignored.
func (d *Delta) AddPayment(p Payment) {
	if p.PaymentType == PaymentTransfer || p.Cause == CauseTransfer {
		return
	}
	key := RevenueKey{Day: day(p.EventID, p.At), Currency: p.Currency}
	r := d.Revenue[key]
	switch p.Type {
	case events.PaymentConfirmed:
		r.Confirmed += p.Amount
		r.Payments++
	case events.PaymentRefunded:
		r.Refunded += p.Amount
		r.Refunds++
	default:
		return
	}
	if d.Revenue == nil {
		d.Revenue = map[RevenueKey]Revenue{}
	}
	d.Revenue[key] = r
}

// AddReward counts one event of a reward.
func (d *Delta) AddReward(r Reward) {
	key := day(r.EventID, r.At)
	c := d.Rewards[key]
	switch r.Type {
	case events.RewardPaid:
		c.Paid++
		if r.Kind == KindPoint {
			c.PointsPaid += r.Value
		}
	case events.RewardFailed:
		c.Failed++
	case events.RewardCancelled:
		c.Cancelled++
	default:
		return
	}
	if d.Rewards == nil {
		d.Rewards = map[Day]RewardCounts{}
	}
	d.Rewards[key] = c
}

// AddRequest counts the end of a request.
func (d *Delta) AddRequest(r Request) {
	key := day(r.EventID, r.At)
	c := d.Requests[key]
	switch r.Type {
	case events.RequestSucceeded:
		c.Succeeded++
	case events.RequestRejected:
		c.Rejected++
	case events.RequestFailed:
		c.Failed++
	default:
		return
	}
	if d.Requests == nil {
		d.Requests = map[Day]RequestCounts{}
	}
	d.Requests[key] = c
}

// Days lists the keys of the counts, sorted: batches that run side by side lock rows in one order.
func (d *Delta) Days() []Day {
	return slices.SortedFunc(maps.Keys(d.Counts), compareDays)
}

// RewardDays lists the keys of the rewards, sorted.
func (d *Delta) RewardDays() []Day {
	return slices.SortedFunc(maps.Keys(d.Rewards), compareDays)
}

// RequestDays lists the keys of the requests, sorted.
func (d *Delta) RequestDays() []Day {
	return slices.SortedFunc(maps.Keys(d.Requests), compareDays)
}

// RevenueKeys lists the keys of the revenue, sorted.
func (d *Delta) RevenueKeys() []RevenueKey {
	return slices.SortedFunc(maps.Keys(d.Revenue), func(a, b RevenueKey) int {
		return cmp.Or(compareDays(a.Day, b.Day), cmp.Compare(a.Currency, b.Currency))
	})
}

func compareDays(a, b Day) int {
	return cmp.Or(cmp.Compare(a.EventID, b.EventID), a.Date.Compare(b.Date))
}

func day(eventID string, at time.Time) Day {
	y, m, d := at.In(Seoul).Date()
	return Day{EventID: eventID, Date: time.Date(y, m, d, 0, 0, 0, 0, time.UTC)}
}
