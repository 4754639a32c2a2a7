// Package membership has the rules of memberships, which users buy for some months and can extend.
package membership

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/purchase"
)

// Errors of requests about memberships.
var (
	ErrNotFound      = errs.ErrMembershipNotFound
	ErrPlanNotFound  = errs.ErrPlanNotFound
	ErrPlanNotOnSale = errs.ErrPlanNotOnSale
	ErrNotPaid       = errs.ErrNotRefundable
	ErrAhead         = errs.ErrMembershipAhead
	ErrFreeOnce      = errs.ErrFreePlanOnce
)

// Status is the status of a membership. Only the transaction that has locked its row may change it.
//
//	PENDING → ACTIVE     its payment is confirmed
//	PENDING → CANCELLED  it is not paid in time
//	ACTIVE → REFUNDING   an operator refunds it, or somebody has refunded it at the provider
//	REFUNDING → ENDED    the refund is made
//	REFUNDING → ACTIVE   the provider has refused the refund
type Status string

// The statuses. EXPIRED is never stored: it stands for an ACTIVE membership whose time is over.
const (
	Pending   Status = "PENDING"
	Active    Status = "ACTIVE"
	Refunding Status = "REFUNDING"
	Ended     Status = "ENDED"
	Cancelled Status = "CANCELLED"
	Expired   Status = "EXPIRED"
)

// Paid reports whether a payment has paid for a membership in this status.
func (s Status) Paid() bool { return s == Active || s == Refunding || s == Ended }

// PayWithin is the time in which a purchase must be paid.
const PayWithin = 30 * time.Minute

// Plan is an offer of memberships. Only OnSale ever changes.
type Plan struct {
	ID   string
	Name string
	// Price is in the currency's minor unit; 0: free.
	Price     int64
	Currency  string
	Months    int
	OnSale    bool
	CreatedAt time.Time
}

// Membership is a user's purchase of a plan. It has the plan's price and months at that time.
type Membership struct {
	purchase.Claim

	ID     uuid.UUID
	UserID string
	PlanID string
	// Price is in the currency's minor unit.
	Price    int64
	Currency string
	Months   int
	Status   Status
	// ActivatedAt is when it was paid. The membership is valid from StartsAt until EndsAt. All three
	// are zero while it is not paid.
	ActivatedAt, StartsAt, EndsAt time.Time
	// GivenBack is the amount that was given back, or that a refund under way gives back.
	GivenBack int64
	// RefundID is the refund that ends it; zero: none.
	RefundID  uuid.UUID
	Version   int64
	CreatedAt time.Time

	events []Event
}

// New makes a user's purchase of a plan.
func New(userID string, p *Plan, now time.Time) *Membership {
	return &Membership{
		Claim: purchase.NewClaim(now.Add(PayWithin)), ID: uuid.Must(uuid.NewV7()), UserID: userID, PlanID: p.ID,
		Price: p.Price, Currency: p.Currency, Months: p.Months, Status: Pending, Version: 1, CreatedAt: now,
	}
}

// View is a membership with its plan's name.
type View struct {
	Membership

	Name string
	// Now is the database's time.
	Now time.Time
}

// StatusNow returns the status at the time Now: CANCELLED if it was not paid in time, EXPIRED if it
// has ended by then.
func (s *View) StatusNow() Status {
	switch {
	case s.Due(s.Now):
		return Cancelled
	case s.Status == Active && !s.Now.Before(s.EndsAt):
		return Expired
	default:
		return s.Status
	}
}

// Due reports whether the time to pay is over, although the status may not say so yet.
func (m *Membership) Due(now time.Time) bool { return m.Status == Pending && m.Over(now) }

// Expire cancels a membership that was not paid in time.
func (m *Membership) Expire(now time.Time) {
	if m.Due(now) {
		m.Status, m.PaymentID = Cancelled, uuid.Nil
		m.Version++
	}
}

// lasts reports whether a membership was paid and not given back, and so may be extended.
func (m *Membership) lasts() bool { return m.Status == Active || m.Status == Refunding }

// CheckAhead returns an error if a user with these memberships of a plan may not buy one more at this
// price: nobody buys more than the term after the present one, and nobody has a free plan twice. Else
// members of old could be such for ever, for a price of which the organiser has long ended the sale.
func CheckAhead(price int64, owned []*Membership, now time.Time) error {
	for _, o := range owned {
		switch {
		case price == 0 && o.Status.Paid():
			return ErrFreeOnce
		case o.lasts() && o.StartsAt.After(now):
			return ErrAhead
		}
	}
	return nil
}

// zone is the time zone (of Korea) in which the months of memberships are counted.
var zone = time.FixedZone("KST", 9*60*60) //nolint:gochecknoglobals // a constant

// addMonths returns the same day and time n months later, or the last day of a shorter month.
func addMonths(t time.Time, n int) time.Time {
	local := t.In(zone)
	end := local.AddDate(0, n, 0)
	if end.Day() != local.Day() {
		end = end.AddDate(0, 0, -end.Day())
	}
	return end.UTC()
}

// begin sets when a membership begins and ends.
func (m *Membership) begin(at time.Time) {
	m.StartsAt, m.EndsAt = at, addMonths(at, m.Months)
	m.Version++
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// EventType is the type of a Kafka event about a membership.
type EventType string

// The types of the Kafka events about memberships.
const (
	EventActivated EventType = "MEMBERSHIP_ACTIVATED"
	EventRejected  EventType = "MEMBERSHIP_REJECTED"
	EventEnded     EventType = "MEMBERSHIP_ENDED"
)

// Event is a Kafka event about a membership, of which it has a copy, and about its payment.
type Event struct {
	Type       EventType
	Membership Membership
	PaymentID  uuid.UUID
	Reason     string
	At         time.Time
}

func (m *Membership) emit(typ EventType, reason string, payment uuid.UUID, at time.Time) {
	snapshot := *m
	snapshot.events = nil
	m.events = append(m.events, Event{Type: typ, Membership: snapshot, PaymentID: payment, Reason: reason, At: at})
}

// TakeEvents returns and removes the events that were added since the membership was read.
func (m *Membership) TakeEvents() []Event {
	events := m.events
	m.events = nil
	return events
}
