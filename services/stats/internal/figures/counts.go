package figures

import (
	"time"

	"urr.guru/proto/events"
)

// figureOf maps the type of a Kafka event to the figure that the event increments.
var figureOf = map[string]Figure{
	events.ReservationCreated:   Created,
	events.ReservationConfirmed: Confirmed,
	events.ReservationCancelled: Cancelled,
	events.ReservationExpired:   Expired,
	events.ReservationRejected:  Rejected,

	events.PaymentDeclined: PaymentsDeclined,

	events.TransferCompleted: TransfersCompleted,
	events.TransferCancelled: TransfersCancelled,
	events.TransferRejected:  TransfersRejected,

	events.MembershipActivated: MembershipsActivated,
	events.MembershipRejected:  MembershipsRejected,
	events.MembershipEnded:     MembershipsEnded,

	events.RewardEntered:   Entries,
	events.RewardPaid:      RewardsPaid,
	events.RewardFailed:    RewardsFailed,
	events.RewardCancelled: RewardsCancelled,

	events.RequestSucceeded: RequestsSucceeded,
	events.RequestRejected:  RequestsRejected,
	events.RequestFailed:    RequestsFailed,
}

// Event is a Kafka event that is counted by its type alone.
type Event struct {
	Type, EventID string
	At            time.Time
}

// Add counts a Kafka event.
func (d *Delta) Add(e Event) {
	if figure, counted := figureOf[e.Type]; counted {
		d.add(e.EventID, e.At, figure, "", 1)
	}
}

const (
	// ReasonRefunded is the reason of a cancellation in which a refund gives places back.
	ReasonRefunded = "REFUNDED"
	// StatusConfirmed is the status of a reservation that keeps other places after such a refund.
	StatusConfirmed = "CONFIRMED"
	// OriginComp is the origin of a reservation that the organiser gives away (a comp).
	OriginComp = "COMP"
)

// Reservation is one Kafka event about a reservation: it was created, confirmed, cancelled, …
type Reservation struct {
	Event

	Origin, Reason, Status, Currency string
	// Quantity is the number of places of the reservation, and Fee the fees paid for them. For a
	// refund or a void both count only the places that end; a Quantity of 0 gives back only fees. For
	// TICKETS_CHECKED_IN, Quantity is the number of tickets used, negative if they became valid again.
	Quantity, Fee int64
}

// AddReservation counts one Kafka event about a reservation. A reservation that keeps some places
// after a refund does not count as cancelled, and none is cancelled twice. Of a comp only its places
// count, apart from those that are sold.
func (d *Delta) AddReservation(r Reservation) {
	places, comp := SeatsSold, r.Origin == OriginComp
	if comp {
		places = Comps
	}
	if !comp && (r.Type != events.ReservationCancelled || r.Status != StatusConfirmed && r.Quantity > 0) {
		d.Add(r.Event)
	}
	refunded := r.Type == events.ReservationCancelled && r.Reason == ReasonRefunded
	switch {
	case r.Type == events.TicketsCheckedIn:
		d.add(r.EventID, r.At, CheckedIn, "", r.Quantity)
	case r.Type == events.ReservationConfirmed:
		d.add(r.EventID, r.At, places, "", r.Quantity)
		d.addFee(r, Fee)
	case r.Type == events.TicketsVoided:
		d.add(r.EventID, r.At, places, "", -r.Quantity)
		d.add(r.EventID, r.At, Voided, "", r.Quantity)
	case refunded:
		d.add(r.EventID, r.At, places, "", -r.Quantity)
		d.addFee(r, FeeRefund)
	}
}

func (d *Delta) addFee(r Reservation, cause Figure) {
	if r.Fee != 0 {
		d.add(r.EventID, r.At, cause, r.Currency, r.Fee)
	}
}

// KindPoint is the kind of a reward that is paid in points.
const KindPoint = "POINT"

// Reward is one Kafka event about a reward: it was paid, failed or was cancelled. Value is the
// number of points of a reward in points.
type Reward struct {
	Event

	Kind  string
	Value int64
}

// AddReward counts one Kafka event about a reward. A reward that failed or was cancelled may be
// paid later, and then counts in both figures.
func (d *Delta) AddReward(r Reward) {
	d.Add(r.Event)
	if r.Type == events.RewardPaid && r.Kind == KindPoint {
		d.add(r.EventID, r.At, PointsPaid, "", r.Value)
	}
}
