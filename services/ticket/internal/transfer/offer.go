package transfer

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/ticket"
)

// Reasons why a ticket cannot be passed on, besides its status.
const (
	NoTransfers  = "NO_TRANSFERS" // tickets of the event cannot be passed on
	TooLate      = "TOO_LATE"
	EventGone    = "EVENT_CANCELLED"
	Disputed     = "DISPUTED"       // its payer disputes the charge at the bank
	PriceTooHigh = "PRICE_TOO_HIGH" // more than the face value, or than what its holder has paid
	BadDeadline  = "DEADLINE"       // not between now and the end of transfers
	Offered      = "OFFERED"        // it has an open offer
	// OnlyWholeOrder: the seller would get a part of the payment back, which is possible as a whole only.
	OnlyWholeOrder = "ONLY_WHOLE_ORDER"
	PriceNotTaken  = "PRICE_NOT_TAKEN" // no payment provider takes it
)

// Possible says whether a ticket's holder could pass it on now.
type Possible struct {
	// Until is the latest end of an offer; zero: tickets of the event cannot be passed on.
	Until time.Time
	// MaxPrice is the highest price, in the currency's minor unit; 0: as a gift only.
	MaxPrice int64
	// Reason is why it cannot be passed on; empty: it can.
	Reason string
}

// PossibleFor says whether the holder of a ticket could pass it on now, and for how much.
func PossibleFor(tk *ticket.Ticket, terms Terms) (p Possible) {
	if terms.Transferable == event.TransferFree || terms.Transferable == event.TransferPriced {
		p.Until = terms.ClosesAt
	}
	if terms.Transferable == event.TransferPriced {
		p.MaxPrice = max(0, min(tk.Price, tk.Owed()))
	}
	if tk.OnlyWhole > 0 && p.MaxPrice != tk.OnlyWhole {
		p.MaxPrice = 0
	}
	switch {
	case tk.Status != ticket.Valid:
		p.Reason = string(tk.Status)
	case p.Until.IsZero():
		p.Reason = NoTransfers
	case !terms.State.TakesPlace():
		p.Reason = EventGone
	case !terms.Now.Before(terms.ClosesAt):
		p.Reason = TooLate
	case tk.Disputed:
		p.Reason = Disputed
	}
	return p
}

// Request is the request of a ticket's holder to offer the ticket.
type Request struct {
	TicketID uuid.UUID
	Seller   string
	ToUser   string
	Price    int64
	// Deadline is the end of the time to accept the offer; zero: until the event closes.
	Deadline time.Time
}

// Offer makes the offer of a ticket, whose row is locked. Errors: ticket.ErrNotFound if the ticket
// is not the seller's, ErrOwn for an offer to oneself, ErrNotTransferable with its reason.
func Offer(req Request, tk *ticket.Ticket, claimHash []byte, terms Terms) (*Transfer, error) {
	if tk == nil || tk.UserID != req.Seller {
		return nil, ticket.ErrNotFound
	}
	possible := PossibleFor(tk, terms)
	if req.Deadline.IsZero() {
		req.Deadline = possible.Until
	}
	reason := possible.Reason
	switch {
	case reason != "":
	case req.ToUser == req.Seller:
		return nil, ErrOwn
	case req.Price > 0 && tk.OnlyWhole > 0 && req.Price != tk.OnlyWhole:
		reason = OnlyWholeOrder
	case req.Price > 0 && !terms.Takers.Take(tk.Currency, req.Price):
		reason = PriceNotTaken
	case req.Price > possible.MaxPrice:
		reason = PriceTooHigh
	case !req.Deadline.After(terms.Now) || req.Deadline.After(possible.Until):
		reason = BadDeadline
	case req.Price > 0 && !terms.Now.Before(terms.ClosesAt.Add(-PayWithin)):
		reason = TooLate
	}
	if reason != "" {
		return nil, ErrNotTransferable.With("reason", reason)
	}
	return &Transfer{
		ID: uuid.Must(uuid.NewV7()), TicketID: tk.ID, EventID: tk.EventID, Seller: req.Seller, ToUser: req.ToUser, ClaimHash: claimHash,
		Price: req.Price, Currency: tk.Currency, Status: Open, Deadline: req.Deadline, Version: 1, CreatedAt: terms.Now,
	}, nil
}

// Buyer is a user who accepts an offer.
type Buyer struct {
	UserID string
	// Blocked: the user is blocked at the event. GaveUp: the user has given this offer up before.
	// CheckLimit returns an error if one more place of the event would exceed the user's limit, unless
	// the limit counts this place already.
	Blocked    bool
	GaveUp     bool
	CheckLimit func() error
	// Sale is the event's sale. Entitled: the user has an entitlement for its presale.
	Sale     event.Sale
	Entitled bool
}

// Accept accepts an offer. A gift passes on at once, and the new ticket is returned; otherwise the
// buyer has time to pay. If the buyer repeats the call, nothing changes. The caller has locked the
// rows of the ticket, the transfer and both users.
func (t *Transfer) Accept(tk *ticket.Ticket, b Buyer, terms Terms) (*ticket.Ticket, error) {
	t.Expire(tk, terms.Now)
	switch {
	case b.UserID == t.Seller:
		return nil, ErrOwn
	case t.Status.Lasts() && t.ToUser != "" && t.ToUser != b.UserID:
		return nil, ErrNotFound
	case t.Buyer == b.UserID && (t.Status == Awaiting || t.Status == Completed):
		return nil, nil //nolint:nilnil // accepted before
	case t.Status == Awaiting:
		return nil, ErrTaken
	case t.Status != Open || tk.Status != ticket.Valid || tk.UserID != t.Seller:
		return nil, ErrEnded
	case b.GaveUp:
		return nil, ErrGivenUp
	case !terms.State.TakesPlace():
		return nil, event.ErrCancelled
	case !terms.Now.Before(t.acceptUntil(terms)):
		return nil, ErrEnded
	case terms.Transferable == event.TransferNone, t.Price > 0 && terms.Transferable != event.TransferPriced:
		return nil, ErrNotTransferable.With("reason", NoTransfers) // the operator has forbidden it since
	case b.Blocked:
		return nil, ErrBlocked
	case tk.Disputed:
		return nil, ErrNotTransferable.With("reason", Disputed)
	}
	if !b.Sale.PresaleAt.IsZero() && terms.Now.Before(b.Sale.OpenAt) && !b.Entitled {
		return nil, event.ErrNotEntitled
	}
	if err := b.CheckLimit(); err != nil {
		return nil, err
	}
	t.Buyer = b.UserID
	if t.Price == 0 {
		return t.complete(tk, uuid.Nil, terms.Now), nil
	}
	t.Status, t.Until = Awaiting, terms.Now.Add(PayWithin)
	t.OriginalEnd = t.Until
	t.Version++
	return nil, nil //nolint:nilnil // it is to be paid
}

// acceptUntil returns the end of the time to accept. It leaves a buyer who has to pay PayWithin.
func (t *Transfer) acceptUntil(terms Terms) time.Time {
	until := terms.ClosesAt
	if t.Price > 0 {
		until = until.Add(-PayWithin)
	}
	if t.Deadline.Before(until) {
		return t.Deadline
	}
	return until
}

// complete passes the ticket on to the buyer, and returns the buyer's ticket.
func (t *Transfer) complete(tk *ticket.Ticket, payment uuid.UUID, now time.Time) *ticket.Ticket {
	sellerPayment, accepted := tk.PaymentID, t.OriginalEnd.Add(-PayWithin)
	if t.Price == 0 {
		sellerPayment, accepted = uuid.Nil, now
	}
	passed := tk.PassOn(t.Buyer, t.Price, payment, accepted)
	t.Status, t.PaymentID, t.Charging, t.NewTicket = Completed, payment, false, passed.ID
	t.Until, t.OriginalEnd = time.Time{}, time.Time{}
	t.Version++
	t.emit(EventCompleted, "", payment, sellerPayment, now)
	return &passed
}
