// Package notice has notices of what happened to tickets and events, and the lanes that send them
// to webhooks and by e-mail.
package notice

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/ticket"
)

// Type is the type of a notice.
type Type string

// The types of notices.
const (
	TicketsIssued     Type = "TICKETS_ISSUED"
	TicketsRefunded   Type = "TICKETS_REFUNDED"
	TicketsVoided     Type = "TICKETS_VOIDED"
	TicketTransferred Type = "TICKET_TRANSFERRED"
	// PaymentRejected is sent when a payment was taken, but pays for nothing: all of it goes back.
	PaymentRejected Type = "PAYMENT_REJECTED"
	// EventCancelled is sent when the cancellation cannot be undone any more.
	EventCancelled Type = "EVENT_CANCELLED"
	EventPostponed Type = "EVENT_POSTPONED"
	// CodesDue is for e-mails only: from then on they contain the codes of the event's tickets.
	CodesDue Type = "CODES_DUE"
)

// AboutEvent reports whether the notice goes to everybody with a ticket of the event. Other notices
// are about one order or payment, and go to the users that they name.
func (t Type) AboutEvent() bool { return t == EventCancelled || t == EventPostponed || t == CodesDue }

// Notice says what happened, in the same way for all receivers.
type Notice struct {
	ID   uuid.UUID
	Type Type
	// Entity is the order or event of the notice, or what a rejected payment was for. The notices of
	// one entity are sent in order.
	Entity, EventID string
	// Data is JSON, of one of the types below.
	Data      []byte
	CreatedAt time.Time
}

// Body returns the body that webhooks get. It is the same at every attempt.
func (n *Notice) Body() []byte {
	return fmt.Appendf(nil, `{"type":%q,"timestamp":%q,"data":%s}`, n.Type, n.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z"), n.Data)
}

// Place is a ticket in a notice. Amount is what was paid for it, with its fee, or was given back.
// It is 0 for a ticket that was voided.
type Place struct {
	TicketID string `json:"ticketId"`
	Section  string `json:"section"`
	SeatID   string `json:"seatId,omitempty"`
	Amount   int64  `json:"amount"`
}

// Order is the data of TicketsIssued, TicketsRefunded and TicketsVoided. Amount is the sum of its
// tickets, in the currency's minor unit. UserID is the holder of issued and voided tickets, and the
// payer of refunded ones, who may have passed some of them on. PaymentID and Cause are set for
// refunds only.
type Order struct {
	ReservationID string  `json:"reservationId"`
	EventID       string  `json:"eventId"`
	UserID        string  `json:"userId"`
	PaymentID     string  `json:"paymentId,omitempty"`
	Cause         string  `json:"cause,omitempty"`
	Amount        int64   `json:"amount"`
	Currency      string  `json:"currency"`
	Tickets       []Place `json:"tickets"`
}

// Passed is the data of TicketTransferred. Price is what the buyer has paid; 0: it was a gift.
type Passed struct {
	ReservationID string `json:"reservationId"`
	EventID       string `json:"eventId"`
	SellerID      string `json:"sellerId"`
	BuyerID       string `json:"buyerId"`
	Section       string `json:"section"`
	SeatID        string `json:"seatId,omitempty"`
	// FormerTicketID is the seller's ticket, which is void now; TicketID is the buyer's.
	FormerTicketID string `json:"formerTicketId"`
	TicketID       string `json:"ticketId"`
	Price          int64  `json:"price"`
	Currency       string `json:"currency"`
}

// Rejected is the data of PaymentRejected. Kind and ReferenceID say what the payment was for: a
// reservation, a transfer, or a membership, which has no EventID. Reason is that of the rejection.
type Rejected struct {
	PaymentID   string `json:"paymentId"`
	Kind        string `json:"paymentType"`
	ReferenceID string `json:"referenceId"`
	EventID     string `json:"eventId,omitempty"`
	UserID      string `json:"userId"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Reason      string `json:"reason"`
}

// Event is the data of EventCancelled and EventPostponed.
type Event struct {
	EventID  string    `json:"eventId"`
	Title    string    `json:"title"`
	StartsAt time.Time `json:"startsAt"`
	// FormerStartsAt is the start before the postponement.
	FormerStartsAt *time.Time `json:"formerStartsAt,omitempty"`
	// FullRefundUntil is the time until which users get back all that they have paid before the
	// postponement; nil: they do not. Delay: the start moves by some hours while doors admit people.
	FullRefundUntil *time.Time `json:"fullRefundUntil,omitempty"`
	Delay           bool       `json:"delay,omitempty"`
}

// Facts has the data that an e-mail shows in addition to its notice.
type Facts struct {
	Title, Venue, TimeZone string
	StartsAt               time.Time
	// Owed: the event is cancelled, and the user gets back all that was paid for a ticket.
	Owed bool
	// FullRefundUntil is the time until which the user gets back all that was paid for a ticket, as
	// the event was postponed; zero: the user has no ticket that can be given back so.
	FullRefundUntil time.Time
	// ContainsTicketCodes: e-mails contain the codes of the event's tickets at present.
	ContainsTicketCodes bool
	// Tickets are the user's valid tickets. They are read only if ContainsTicketCodes is set.
	Tickets []ticket.Ticket
}

// New is a notice that is not stored yet. Data is an Order, a Passed, a Rejected or an Event.
type New struct {
	Type            Type
	Entity, EventID string
	Data            any
}

// ForNewTickets returns the notices about new tickets: one for the tickets of each order, and one
// for each ticket that was passed on. Tickets that nobody has claimed by their link yet have none.
func ForNewTickets(tickets []ticket.Ticket) []New {
	var issued []Item
	var all []New
	for i := range tickets {
		t := &tickets[i]
		if t.Previous == uuid.Nil {
			if t.UserID != "" {
				issued = append(issued, Item{Ticket: t, Amount: t.Paid})
			}
			continue
		}
		order := t.ReservationID.String()
		all = append(all, New{Type: TicketTransferred, Entity: order, EventID: t.EventID, Data: Passed{
			ReservationID: order, EventID: t.EventID, SellerID: t.PreviousHolder, BuyerID: t.UserID, Section: t.Section, SeatID: seatID(t),
			FormerTicketID: t.Previous.String(), TicketID: t.ID.String(), Price: t.Paid, Currency: t.Currency,
		}})
	}
	return append(forOrders(Order{}, TicketsIssued, issued), all...)
}

// Item is a ticket, and the amount that was paid or given back for it.
type Item struct {
	Ticket *ticket.Ticket
	Amount int64
}

// ForVoidedTickets returns the notices about tickets that an operator has voided: one for each
// holder in an order. Tickets that nobody has claimed by their link yet have none.
func ForVoidedTickets(tickets []*ticket.Ticket) []New {
	var held []Item
	for _, t := range tickets {
		if t.UserID != "" {
			held = append(held, Item{Ticket: t})
		}
	}
	return forOrders(Order{}, TicketsVoided, held)
}

// ForRefund returns the notice for the payer of tickets for which a refund of the payment was made.
// Tickets that were passed on belong to it too: their new holders have not paid what comes back.
func ForRefund(payment uuid.UUID, cause string, items []Item) []New {
	return forOrders(Order{PaymentID: payment.String(), Cause: cause}, TicketsRefunded, items)
}

// ForRejected returns the notice that a payment for something of this kind was rejected.
func ForRejected(kind string, reference uuid.UUID, p purchase.Payment, reason string) New {
	return New{Type: PaymentRejected, Entity: reference.String(), EventID: p.EventID, Data: Rejected{
		PaymentID: p.ID.String(), Kind: kind, ReferenceID: reference.String(), EventID: p.EventID, UserID: p.UserID, Amount: p.Amount,
		Currency: p.Currency, Reason: reason,
	}}
}

// forOrders returns one notice for the tickets of each order and user. common has the data that all
// of them share.
func forOrders(common Order, t Type, items []Item) []New {
	type key struct {
		order uuid.UUID
		user  string
	}
	var keys []key
	orders := make(map[key]*Order)
	for _, item := range items {
		k := item.Ticket
		group := key{k.ReservationID, k.UserID}
		o := orders[group]
		if o == nil {
			order := common
			order.ReservationID, order.EventID, order.UserID, order.Currency = k.ReservationID.String(), k.EventID, k.UserID, k.Currency
			o = &order
			orders[group], keys = o, append(keys, group)
		}
		o.Amount += item.Amount
		o.Tickets = append(o.Tickets, Place{TicketID: k.ID.String(), Section: k.Section, SeatID: seatID(k), Amount: item.Amount})
	}
	all := make([]New, len(keys))
	for i, group := range keys {
		all[i] = New{Type: t, Entity: group.order.String(), EventID: orders[group].EventID, Data: orders[group]}
	}
	return all
}

func seatID(t *ticket.Ticket) string {
	if t.Seat == nil {
		return ""
	}
	return t.Seat.ID
}

// ForEvent returns a notice about an event.
func ForEvent(t Type, e Event) New {
	return New{Type: t, Entity: e.EventID, EventID: e.EventID, Data: e}
}
