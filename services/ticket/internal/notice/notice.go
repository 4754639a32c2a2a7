// Package notice has notices of what happened to tickets and events, and the lanes that send them
// to webhooks and by e-mail.
package notice

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/ticket"
)

// Type is the type of a notice.
type Type string

// The types of notices.
const (
	TicketsIssued     Type = "TICKETS_ISSUED"
	TicketsRefunded   Type = "TICKETS_REFUNDED"
	TicketTransferred Type = "TICKET_TRANSFERRED"
	// EventCancelled is sent when the cancellation cannot be undone any more.
	EventCancelled Type = "EVENT_CANCELLED"
	EventPostponed Type = "EVENT_POSTPONED"
	// CodesDue is for e-mails only: from then on they contain the codes of the event's tickets.
	CodesDue Type = "CODES_DUE"
)

// Notice says what happened, in the same way for all receivers.
type Notice struct {
	ID   uuid.UUID
	Type Type
	// Entity is the order or event of the notice. The notices of one entity are sent in order.
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
type Place struct {
	TicketID string `json:"ticketId"`
	Section  string `json:"section"`
	SeatID   string `json:"seatId,omitempty"`
	Amount   int64  `json:"amount"`
}

// Order is the data of TicketsIssued and TicketsRefunded. Amount is the sum of its tickets, in the
// currency's minor unit.
type Order struct {
	ReservationID string  `json:"reservationId"`
	EventID       string  `json:"eventId"`
	UserID        string  `json:"userId"`
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

// Event is the data of EventCancelled and EventPostponed.
type Event struct {
	EventID  string    `json:"eventId"`
	Title    string    `json:"title"`
	StartsAt time.Time `json:"startsAt"`
	// FormerStartsAt is the start before the postponement.
	FormerStartsAt *time.Time `json:"formerStartsAt,omitempty"`
}

// Facts has the data that an e-mail shows in addition to its notice.
type Facts struct {
	Title, Venue, TimeZone string
	StartsAt               time.Time
	// Codes: e-mails contain the codes of the event's tickets at present.
	Codes bool
	// Tickets are the user's valid tickets. They are read only if Codes is set.
	Tickets []ticket.Ticket
}

// New is a notice that is not stored yet. Data is an Order, a Passed or an Event.
type New struct {
	Type            Type
	Entity, EventID string
	Data            any
}

// ForNewTickets returns the notices about new tickets: one for the tickets of each order, and one
// for each ticket that was passed on. Tickets that nobody has claimed by their link yet have none.
func ForNewTickets(tickets []ticket.Ticket) []New {
	var issued []*ticket.Ticket
	var all []New
	for i := range tickets {
		t := &tickets[i]
		if t.Previous == uuid.Nil {
			if t.UserID != "" {
				issued = append(issued, t)
			}
			continue
		}
		order := t.ReservationID.String()
		all = append(all, New{Type: TicketTransferred, Entity: order, EventID: t.EventID, Data: Passed{
			ReservationID: order, EventID: t.EventID, SellerID: t.PreviousHolder, BuyerID: t.UserID, Section: t.Section, SeatID: seatID(t),
			FormerTicketID: t.Previous.String(), TicketID: t.ID.String(), Price: t.Paid, Currency: t.Currency,
		}})
	}
	return append(forOrders(TicketsIssued, issued, func(t *ticket.Ticket) int64 { return t.Paid }), all...)
}

// ForRefundedTickets returns the notices about tickets that were refunded: one for each holder in
// an order.
func ForRefundedTickets(tickets []*ticket.Ticket) []New {
	return forOrders(TicketsRefunded, tickets, func(t *ticket.Ticket) int64 { return t.GivenBack })
}

// forOrders returns one notice for the tickets of each order and holder.
func forOrders(t Type, tickets []*ticket.Ticket, amount func(*ticket.Ticket) int64) []New {
	type key struct {
		order  uuid.UUID
		holder string
	}
	var keys []key
	orders := make(map[key]*Order)
	for _, k := range tickets {
		group := key{k.ReservationID, k.UserID}
		o := orders[group]
		if o == nil {
			o = &Order{ReservationID: k.ReservationID.String(), EventID: k.EventID, UserID: k.UserID, Currency: k.Currency}
			orders[group], keys = o, append(keys, group)
		}
		o.Amount += amount(k)
		o.Tickets = append(o.Tickets, Place{TicketID: k.ID.String(), Section: k.Section, SeatID: seatID(k), Amount: amount(k)})
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
