// Package figures counts the Kafka events of other services: totals per event (performance,
// campaign or promotion) and day.
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

// Counted reports whether Kafka events of a type add to the figures. Other types are skipped, since
// the services that publish them may be newer than this one.
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

// ReasonRefunded is the reason of a cancellation in which a refund gives places back. StatusConfirmed
// is the status of a reservation that keeps other places afterwards: it is not cancelled yet.
const (
	ReasonRefunded  = "REFUNDED"
	StatusConfirmed = "CONFIRMED"
)

// A transfer moves money between two visitors and is no revenue. The buyer's payment has the type
// PaymentTransfer; the partial refund that pays the seller has the cause CauseTransfer.
const (
	PaymentTransfer = "transfer"
	CauseTransfer   = "TRANSFER"
)

// KindPoint is the kind of a reward that is paid in points.
const KindPoint = "POINT"

// Reservation is one Kafka event about a reservation: it was created, confirmed, cancelled, …
type Reservation struct {
	Type, EventID, Reason, Status string
	Quantity                      int64 // places of the reservation; after a refund, the places given back
	At                            time.Time
}

// Payment is one Kafka event about a payment: it was confirmed or refunded. Amount is the amount of
// the payment or refund, in minor units.
type Payment struct {
	Type, PaymentType, EventID, Currency string

	Cause  string // of a refund
	Amount int64
	At     time.Time
}

// Reward is one Kafka event about a reward: it was paid, failed or was cancelled. Value is the
// number of points of a reward in points.
type Reward struct {
	Type, EventID, Kind string
	Value               int64
	At                  time.Time
}

// Request is the Kafka event that a request to a promotion has succeeded, was rejected or failed.
type Request struct {
	Type, EventID string
	At            time.Time
}

// Day is an event on a calendar day in Seoul, the key of counts. Date is midnight UTC of that day.
type Day struct {
	EventID string
	Date    time.Time
}

// Counts are the numbers of reservations of one event and day by outcome, and of sold seats.
type Counts struct {
	Created, Confirmed, Cancelled, Expired, Rejected, SeatsSold int64
}

// RevenueKey is the event, day and currency for which revenue is counted.
type RevenueKey struct {
	Day
	Currency string
}

// Revenue has the sums of confirmed payments and of refunds, in minor units, and how many there were.
type Revenue struct {
	Confirmed, Refunded, Payments, Refunds int64
}

// RewardCounts counts the rewards of one campaign and day by outcome. A reward that failed or was
// cancelled may be paid later, and then counts in both fields.
type RewardCounts struct {
	Paid, Failed, Cancelled, PointsPaid int64
}

// RequestCounts counts the requests to one promotion by the result that they got on one day. A
// failed request that an operator has redriven counts again with its next result.
type RequestCounts struct {
	Succeeded, Rejected, Failed int64
}

// Delta is what a batch of Kafka events adds to the figures. The zero value is empty and ready to use.
type Delta struct {
	Counts   map[Day]Counts
	Revenue  map[RevenueKey]Revenue
	Rewards  map[Day]RewardCounts
	Requests map[Day]RequestCounts
}

// AddReservation adds one Kafka event about a reservation to the delta.
func (d *Delta) AddReservation(r Reservation) {
	key := dayOf(r.EventID, r.At)
	c := d.Counts[key]
	switch r.Type {
	case events.ReservationCreated:
		c.Created++
	case events.ReservationConfirmed:
		c.Confirmed++
		c.SeatsSold += r.Quantity
	case events.ReservationCancelled:
		if r.Status != StatusConfirmed {
			c.Cancelled++
		}
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
	setInMap(&d.Counts, key, c)
}

// setInMap sets m[key] to v, and makes the map if it is nil.
func setInMap[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = v
}

// AddPayment adds one Kafka event about a payment to the delta. Transfers are ignored.
func (d *Delta) AddPayment(p Payment) {
	if p.PaymentType == PaymentTransfer || p.Cause == CauseTransfer {
		return
	}
	key := RevenueKey{Day: dayOf(p.EventID, p.At), Currency: p.Currency}
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
	setInMap(&d.Revenue, key, r)
}

// AddReward adds one Kafka event about a reward to the delta.
func (d *Delta) AddReward(r Reward) {
	key := dayOf(r.EventID, r.At)
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
	setInMap(&d.Rewards, key, c)
}

// AddRequest adds the result of one request to the delta.
func (d *Delta) AddRequest(r Request) {
	key := dayOf(r.EventID, r.At)
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
	setInMap(&d.Requests, key, c)
}

// Days returns the keys of counts, sorted, so that concurrent transactions lock rows in the same order.
func Days[C any](counts map[Day]C) []Day { return slices.SortedFunc(maps.Keys(counts), compareDays) }

// RevenueKeys returns the keys of revenue, sorted by event, day and currency, so that concurrent
// transactions lock rows in the same order.
func RevenueKeys(revenue map[RevenueKey]Revenue) []RevenueKey {
	return slices.SortedFunc(maps.Keys(revenue), func(a, b RevenueKey) int {
		return cmp.Or(compareDays(a.Day, b.Day), cmp.Compare(a.Currency, b.Currency))
	})
}

func compareDays(a, b Day) int {
	return cmp.Or(cmp.Compare(a.EventID, b.EventID), a.Date.Compare(b.Date))
}

// dayOf returns the key of the counts of an event for the day in Seoul on which a time falls.
func dayOf(eventID string, at time.Time) Day {
	y, m, d := at.In(Seoul).Date()
	return Day{EventID: eventID, Date: time.Date(y, m, d, 0, 0, 0, 0, time.UTC)}
}
