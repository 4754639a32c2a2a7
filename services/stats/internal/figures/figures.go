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

// Counted reports whether a type of event adds to the figures. Other types are skipped, since the
// producers may be upgraded first.
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

// ReasonRefunded is the reason of places that a refund gives back. StatusConfirmed is the status of
// their reservation while others of its places are left: it is not cancelled yet.
const (
	ReasonRefunded  = "REFUNDED"
	StatusConfirmed = "CONFIRMED"
)

// A transfer moves money between two visitors, which is not revenue: neither the buyer's payment,
// which has this type, nor the partial refund that pays the seller, which has this cause.
const (
	PaymentTransfer = "transfer"
	CauseTransfer   = "TRANSFER"
)

// KindPoint is the kind of the rewards that are paid in points.
const KindPoint = "POINT"

// Reservation is one event of a reservation's life.
type Reservation struct {
	Type, EventID, Reason, Status string
	Quantity                      int64 // of a cancellation by a refund: the places given back
	At                            time.Time
}

// Payment is one event of a payment's life. Amount is that of the payment or refund, in minor units.
type Payment struct {
	Type, PaymentType, EventID, Currency string

	Cause  string // of a refund
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

// Counts are the numbers of reservations of one event and day by outcome, and of sold seats.
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

// RewardCounts of one campaign and day. A reward that failed or was cancelled may be paid later, and
// then counts as both.
type RewardCounts struct {
	Paid, Failed, Cancelled, PointsPaid int64
}

// RequestCounts of the requests to one promotion that ended on one day. A failed request that an
// operator has redriven counts again when it ends.
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
	set(&d.Counts, key, c)
}

// set writes to a map, which may be nil.
func set[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = v
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
	set(&d.Revenue, key, r)
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
	set(&d.Rewards, key, c)
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
	set(&d.Requests, key, c)
}

// Days returns the keys of counts, sorted, so that concurrent batches lock rows in one order.
func Days[C any](counts map[Day]C) []Day { return slices.SortedFunc(maps.Keys(counts), compareDays) }

// RevenueKeys returns the keys of revenue, sorted by day and currency, for the same reason as Days.
func RevenueKeys(revenue map[RevenueKey]Revenue) []RevenueKey {
	return slices.SortedFunc(maps.Keys(revenue), func(a, b RevenueKey) int {
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
