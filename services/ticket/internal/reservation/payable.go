package reservation

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
)

var _ purchase.Purchase = (*Purchase)(nil)

// Purchase is a reservation with what else decides about its payments.
type Purchase struct {
	*Reservation

	// Event is the state of its event. It is read after the locks, if there are any.
	Event event.State
	// Blocked: its user is blocked at the event.
	Blocked bool
	// OtherPages are the pages of the user's other unpaid holds of the event.
	OtherPages purchase.Pages
	// EventTitle and StatementSuffix are those of the event. Only FindToPay reads them.
	EventTitle, StatementSuffix string
}

// Rules: a hold's time is counted most exactly of all, since its places are kept from others.
func (p *Purchase) Rules() purchase.Rules {
	return purchase.Rules{KeepsEnd: true, CountsFailures: true, NeedsPayment: true, OtherPages: p.OtherPages}
}

func (p *Purchase) ToPay() *purchase.Payable {
	return &purchase.Payable{
		Type: purchase.Reservation, ID: p.ID, UserID: p.UserID, EventID: p.EventID, Amount: p.Amount, Currency: p.Currency,
		ExpiresAt: p.Until, Description: p.describe(), StatementSuffix: p.StatementSuffix,
	}
}

// describe returns the title of the event and the places.
func (p *Purchase) describe() string {
	if len(p.Seats) > 0 {
		return p.EventTitle + ": " + strings.Join(p.SeatIDs(), ", ")
	}
	return p.EventTitle + ": " + strconv.Itoa(p.Quantity) + " × " + p.Section
}

// Payable returns nil while the reservation can be paid: it is HELD or PAYING, in time, and its event
// takes place. A user who is blocked begins no payment, but what may have been charged goes on.
// Errors: event.ErrCancelled, BUYER_BLOCKED, and those of package purchase.
func (p *Purchase) Payable(user string, payment uuid.UUID, now time.Time) error {
	switch {
	case p.UserID != user:
		return purchase.ErrReferenceNotFound
	case p.Due(now) || p.Status == Expired:
		return purchase.ErrHoldExpired
	case p.Status == Confirmed:
		return purchase.ErrAlreadyPaid
	case !p.Status.Unpaid():
		return purchase.ErrNotPayable
	case !p.Event.TakesPlace():
		return event.ErrCancelled
	case p.Blocked && (!p.Charging || p.PaymentID != payment):
		return errs.ErrBuyerBlocked
	default:
		return nil
	}
}

func (p *Purchase) Unpaid() bool { return p.Status.Unpaid() }
func (p *Purchase) Paid() bool   { return p.Status == Confirmed }

// Expire expires the reservation if its time is over, or cancels it if its event has ended.
func (p *Purchase) Expire(now time.Time) {
	if p.Event == event.Ended {
		p.CancelWithEvent(now)
		return
	}
	p.Reservation.Expire(now)
}

// Claimed makes it PAYING while a payment is under way, so that its places stay held, and HELD again
// after that.
func (p *Purchase) Claimed(purchase.Claim) {
	p.Status = Held
	if p.PaymentID != uuid.Nil {
		p.Status = Paying
	}
	p.Version++
}

func (p *Purchase) Refusal(purchase.Payment, time.Time) string {
	switch p.Status {
	case Held, Paying:
		return ""
	case Expired:
		return purchase.ReasonHoldExpired
	case Cancelled:
		return ReasonCancelled
	default: // another payment of a REJECTED, REFUNDED or VOIDED reservation
		return p.Reason
	}
}

func (p *Purchase) Accept(paid purchase.Payment, now time.Time) {
	p.Status, p.PaymentID, p.WholeOnly = Confirmed, paid.ID, paid.WholeOnly
	p.Version++
	p.emit(EventConfirmed, "", paid.ID, now)
}

// Reject makes an ended reservation REJECTED, and publishes the rejection. The version grows even if
// the status stays, so that the event is newer than the one before.
func (p *Purchase) Reject(paid purchase.Payment, reason string, now time.Time) {
	if paid.EndedWhy == "" && (p.Status == Expired || p.Status == Cancelled) {
		p.Status, p.PaymentID, p.Reason = Rejected, paid.ID, reason
	}
	p.Version++
	p.emit(EventPaymentRejected, reason, paid.ID, now)
}

// payables is the purchase.Store of reservations.
type payables struct {
	Store

	events Events
}

// FindToPay takes the event from the cache. So it may be cancelled by now, but ChangeToBegin sees that.
func (s payables) FindToPay(ctx context.Context, id uuid.UUID) (*Purchase, time.Time, error) {
	r, now, err := s.Find(ctx, id)
	if errors.Is(err, ErrNotFound) {
		err = purchase.ErrReferenceNotFound
	}
	if err != nil {
		return nil, now, err
	}
	e, err := s.events.Event(ctx, r.EventID)
	if err != nil {
		return nil, now, err
	}
	return &Purchase{Reservation: r, Event: e.State, EventTitle: e.Title, StatementSuffix: *e.StatementSuffix}, now, nil
}
