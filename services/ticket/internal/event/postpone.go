package event

import (
	"time"

	"urr.guru/pkg/errs"
)

const (
	// feesWithin is how long after a postponement users get the fee back too, by default.
	feesWithin = 7 * 24 * time.Hour
	// closesBefore is how long before its start an event closes (its refunds and transfers end) if
	// no time is set at which doors open.
	closesBefore = time.Hour
	// delayWithin is the longest postponement that counts as a delay.
	delayWithin = 6 * time.Hour
)

// Postponement asks for a new date of an event.
type Postponement struct {
	StartsAt time.Time
	// A zero DoorsAt unsets the doors' time, except in a delay; a zero SalesCloseAt changes nothing.
	// Until RefundUntil users get price and fee back; zero: 7 days, at most until the event closes.
	DoorsAt, SalesCloseAt, RefundUntil time.Time
}

// Postponed has the new times of an event. ClosesAt is set only for a delay, and then unchanged:
// doors continue to use the lists of valid tickets that they have downloaded.
type Postponed struct{ StartsAt, DoorsAt, ClosesAt, SalesCloseAt, FeesUntil time.Time }

// Delay reports whether the event only begins some hours later. Nothing can be given back then.
func (n *Postponed) Delay() bool { return !n.ClosesAt.IsZero() }

// isDelay reports whether a closed event moves by at most delayWithin, and no other time is set.
func (p Postponement) isDelay(e *Event, now time.Time) bool {
	return p.DoorsAt.IsZero() && p.RefundUntil.IsZero() && !now.Before(e.Closing().ClosesAt) && p.StartsAt.Sub(e.StartsAt) <= delayWithin
}

// Plan returns the new times of an event whose row is locked; nil if the event has them already.
// doorsAt is when the event's doors open at present, zero if not set. Even an event that has begun,
// or whose sale is closed, can be postponed.
func (p Postponement) Plan(e *Event, doorsAt, now time.Time) (*Postponed, error) {
	if !e.State.TakesPlace() {
		return nil, ErrCancelled
	}
	n := Postponed{
		StartsAt: toMicroseconds(p.StartsAt), DoorsAt: toMicroseconds(p.DoorsAt), SalesCloseAt: toMicroseconds(p.SalesCloseAt),
		FeesUntil: toMicroseconds(p.RefundUntil),
	}
	if p.SalesCloseAt.IsZero() {
		n.SalesCloseAt = e.SalesCloseAt
	}
	if p.isDelay(e, now) {
		n.DoorsAt, n.ClosesAt = doorsAt, e.Closing().ClosesAt
	}
	repeated := p.RefundUntil.IsZero() || n.FeesUntil.Equal(e.FeesUntil)
	if repeated && !e.PostponedFrom.IsZero() && n.sameDate(e, doorsAt) {
		return nil, nil //nolint:nilnil // nothing changes
	}
	if !n.StartsAt.After(now) {
		return nil, ErrStartPast
	}
	closes := n.closesAt()
	if p.RefundUntil.IsZero() {
		n.FeesUntil = now.Add(feesWithin)
		if closes.Before(n.FeesUntil) {
			n.FeesUntil = closes
		}
	}
	if bad := n.check(e, closes); len(bad) > 0 {
		return nil, ErrInvalid.WithFields(bad...)
	}
	return &n, nil
}

func (n *Postponed) sameDate(e *Event, doorsAt time.Time) bool {
	return n.StartsAt.Equal(e.StartsAt) && n.DoorsAt.Equal(doorsAt) && n.SalesCloseAt.Equal(e.SalesCloseAt)
}

// closesAt returns when refunds by users end.
func (n *Postponed) closesAt() time.Time {
	switch {
	case n.Delay():
		return n.ClosesAt
	case n.DoorsAt.IsZero():
		return n.StartsAt.Add(-closesBefore)
	default:
		return n.DoorsAt
	}
}

func (n *Postponed) check(e *Event, closes time.Time) (bad []errs.Field) {
	if !n.StartsAt.After(e.SalesOpenAt) {
		bad = append(bad, errs.Field{Path: "startsAt", Message: "must be after salesOpenAt"})
	}
	if n.DoorsAt.After(n.StartsAt) {
		bad = append(bad, errs.Field{Path: "doorsAt", Message: "must not be after startsAt"})
	}
	if !n.SalesCloseAt.After(e.SalesOpenAt) {
		bad = append(bad, errs.Field{Path: "salesCloseAt", Message: "must be after salesOpenAt"})
	}
	if n.FeesUntil.After(closes) {
		bad = append(bad, errs.Field{Path: "refundUntil", Message: "must not be after doors open, or an hour before the start"})
	}
	return bad
}
