// Package transfer passes tickets from one user to another: the holder offers a ticket, as a gift
// or for money, somebody accepts the offer, and the new holder gets a new ticket.
package transfer

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/ticket"
)

// Errors of requests about transfers.
var (
	ErrNotFound        = errs.ErrTransferNotFound
	ErrNotTransferable = errs.ErrNotTransferable
	ErrEnded           = errs.ErrTransferEnded
	ErrTaken           = errs.ErrTransferTaken
	ErrGivenUp         = errs.ErrTransferGivenUp
	ErrOwn             = errs.ErrOwnTransfer
	ErrBlocked         = errs.ErrBuyerBlocked
)

// Status is the status of a transfer. To change it, the rows of transfer and ticket must be locked.
//
//	OPEN → COMPLETED                    a gift is accepted
//	OPEN → AWAITING_PAYMENT             an offer with a price is accepted
//	AWAITING_PAYMENT → COMPLETED        the buyer has paid
//	AWAITING_PAYMENT → OPEN             the buyer does not pay in time, or gives it up
//	AWAITING_PAYMENT → EXPIRED          the second buyer does not pay either (maxUnpaid), or the only
//	                                    user who may accept it gives it up
//	OPEN → EXPIRED                      nobody accepts it in time
//	OPEN, AWAITING_PAYMENT → CANCELLED  the seller cancels it, or the ticket is used, refunded or voided
type Status string

// The statuses of a transfer.
const (
	Open      Status = "OPEN"
	Awaiting  Status = "AWAITING_PAYMENT"
	Completed Status = "COMPLETED"
	Cancelled Status = "CANCELLED"
	Expired   Status = "EXPIRED"
)

// Lasts reports whether a transfer in this status may still be completed.
func (s Status) Lasts() bool { return s == Open || s == Awaiting }

// Reasons for the end of an offer.
const (
	ReasonSeller         = "SELLER"
	ReasonUsed           = "USED"
	ReasonRefunded       = "REFUNDED"
	ReasonVoided         = "VOIDED"
	ReasonEventCancelled = "EVENT_CANCELLED"
	ReasonPostponed      = "POSTPONED"
	ReasonDeadline       = "DEADLINE"
	ReasonUnpaid         = "UNPAID"
)

const (
	// PayWithin is the buyer's time to pay. An offer with a price can be accepted until this long
	// before the event closes.
	PayWithin = 15 * time.Minute
	// maxUnpaid is the number of buyers who may fail to pay. After the last of them the offer ends.
	maxUnpaid = 2
	// GiveUpWithin is the time in which a buyer may give an accepted offer up without counting for
	// maxUnpaid.
	GiveUpWithin = 5 * time.Minute
)

// Transfer is the offer of a ticket to another user, and what became of it.
type Transfer struct {
	// Until is the end of the buyer's time to pay. It and OriginalEnd are zero unless the status is
	// AWAITING_PAYMENT. Begun has the payments of earlier buyers too. While Charging is false, the
	// buyer or seller may cancel.
	purchase.Claim

	ID, TicketID uuid.UUID
	EventID      string
	Seller       string
	// ToUser is the only user who may accept it; empty: whoever has the link.
	ToUser string
	// ClaimHash is the hash of the secret in its link.
	ClaimHash []byte
	// Price is in the currency's minor unit; 0: a gift.
	Price    int64
	Currency string
	Status   Status
	// Reason is why it has ended without a new holder.
	Reason string
	// Deadline is the end of the time to accept it.
	Deadline time.Time
	// Buyer is the user who has accepted it; empty: nobody has.
	Buyer string
	// UnpaidBuyers counts the buyers who have not paid, without those who gave the offer up early.
	UnpaidBuyers int
	// GaveUp is the buyer who has given it up since it was read; empty: nobody.
	GaveUp string
	// NewTicket is the buyer's ticket; zero: none yet.
	NewTicket uuid.UUID
	Version   int64
	CreatedAt time.Time

	events []Event
}

// View is a transfer with its ticket and event, as its seller and its buyer see it.
type View struct {
	Transfer

	Ticket     ticket.Ticket
	EventTitle string
	// StatementSuffix is that of the event (see event.Spec).
	StatementSuffix string
	StartsAt        time.Time
	TimeZone        string
	// Now is the database's time.
	Now time.Time
}

// Due reports whether the time to accept or to pay is over, although the status may not say so yet.
func (t *Transfer) Due(now time.Time) bool {
	switch t.Status {
	case Open:
		return !now.Before(t.Deadline)
	case Awaiting:
		return t.Over(now)
	default:
		return false
	}
}

// Expire opens the offer again if its buyer's time to pay is over, and then ends the offer if its
// deadline has passed.
func (t *Transfer) Expire(tk *ticket.Ticket, now time.Time) {
	if t.Status == Awaiting && t.Due(now) {
		t.UnpaidBuyers++
		t.reopen(tk, now)
	}
	if t.Status == Open && t.Due(now) {
		t.end(Expired, ReasonDeadline, now)
	}
}

// reopen opens an accepted offer again, or ends it if maxUnpaid buyers have not paid.
func (t *Transfer) reopen(tk *ticket.Ticket, now time.Time) {
	if t.Charging {
		tk.Return()
	}
	t.Charging, t.Opens = false, 0
	if t.UnpaidBuyers >= maxUnpaid {
		t.end(Expired, ReasonUnpaid, now)
		return
	}
	t.Status, t.Buyer, t.PaymentID, t.Until, t.OriginalEnd = Open, "", uuid.Nil, time.Time{}, time.Time{}
	t.Version++
}

// giveUp opens an offer again whose buyer does not want it any more, for others than that buyer: else
// two accounts could end or keep it in turn. Giving up soon does not count as not paying, so that a
// crowd of accounts cannot end the offer at once; each of them keeps it from others for GiveUpWithin
// at most.
func (t *Transfer) giveUp(tk *ticket.Ticket, now time.Time) {
	t.GaveUp = t.Buyer
	switch accepted := t.OriginalEnd.Add(-PayWithin); {
	case t.ToUser != "": // nobody else may accept it
		t.UnpaidBuyers = maxUnpaid
	case !now.Before(accepted.Add(GiveUpWithin)):
		t.UnpaidBuyers++
	}
	t.reopen(tk, now)
}

// end ends an offer without a new holder. Its event has the id of a payment whose page is open.
func (t *Transfer) end(s Status, reason string, now time.Time) {
	t.Status, t.Reason, t.Until, t.OriginalEnd = s, reason, time.Time{}, time.Time{}
	t.Version++
	t.emit(EventCancelled, reason, t.PaymentID, uuid.Nil, now)
	t.PaymentID = uuid.Nil
}

// Cancel ends an offer if the user is its seller, and gives it up if the user is its buyer. The
// seller may repeat it. Errors: ErrNotFound for other users; ErrEnded; purchase.ErrPaymentInProgress
// while the buyer may have been charged.
func (t *Transfer) Cancel(tk *ticket.Ticket, user string, now time.Time) error {
	seller := user == t.Seller
	switch {
	case !seller && (t.Status != Awaiting || user != t.Buyer):
		return ErrNotFound
	case seller && t.Status == Cancelled && t.Reason == ReasonSeller:
		return nil
	}
	t.Expire(tk, now)
	switch {
	case !t.Status.Lasts():
		return ErrEnded
	case t.Charging:
		return purchase.ErrPaymentInProgress
	case seller:
		t.end(Cancelled, ReasonSeller, now)
	case t.Status == Awaiting: // else its time was over just now, and it is open again
		t.giveUp(tk, now)
	}
	return nil
}

// Block opens an offer again that a user has accepted who is blocked now, unless the user may have
// been charged.
func (t *Transfer) Block(tk *ticket.Ticket, user string, now time.Time) {
	if t.Expire(tk, now); t.Status == Awaiting && t.Buyer == user && !t.Charging {
		t.reopen(tk, now)
	}
}

// EndWith ends an offer whose ticket is not valid any more, or whose event was cancelled or
// postponed. An offer whose buyer may have been charged does not end.
func (t *Transfer) EndWith(reason string, now time.Time) {
	if t.Status.Lasts() && !t.Charging {
		t.end(Cancelled, reason, now)
	}
}

// Terms has what decisions about transfers need to know about the event. It is read after all locks
// are taken.
type Terms struct {
	event.AfterSaleTerms

	Now time.Time
	// BuyerBlocked: the user who has accepted the offer is blocked at the event.
	BuyerBlocked bool
	// Takers are the payment providers, for new offers.
	Takers event.Takers
}

// EventType is the type of a Kafka event about a transfer.
type EventType string

// The types of the Kafka events about transfers.
const (
	EventCompleted EventType = "TRANSFER_COMPLETED"
	EventCancelled EventType = "TRANSFER_CANCELLED"
	EventRejected  EventType = "TRANSFER_REJECTED"
)

// Event is a Kafka event about a transfer, with a copy of the transfer at that time.
type Event struct {
	Type     EventType
	Transfer Transfer
	// PaymentID is the buyer's payment. A refund of SellerPayment pays the seller. Zero: none.
	PaymentID, SellerPayment uuid.UUID
	Reason                   string
	At                       time.Time
}

func (t *Transfer) emit(typ EventType, reason string, payment, sellerPayment uuid.UUID, at time.Time) {
	snapshot := *t
	snapshot.events = nil
	t.events = append(t.events, Event{Type: typ, Transfer: snapshot, PaymentID: payment, SellerPayment: sellerPayment, Reason: reason, At: at})
}

// TakeEvents returns and removes the events that were added since the transfer was read.
func (t *Transfer) TakeEvents() []Event {
	events := t.events
	t.events = nil
	return events
}
