package refund

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/ticket"
)

// ForEnded decides on tickets of an event that has ended; their rows must be locked. It claims the
// tickets for which money is owed, one claim per payment, and ends and returns those for which nothing
// is owed. Tickets that a refund or a transfer is changing are left to that refund or transfer.
func ForEnded(tickets []*ticket.Ticket, now time.Time) (claims []Claim, free []*ticket.Ticket) {
	for _, t := range tickets {
		admits := t.Status == ticket.Valid || t.Status == ticket.Used
		switch owed := t.Owed(); {
		case admits && owed == 0:
			t.End()
			free = append(free, t)
		case admits:
			c := claimOf(&claims, t.PaymentID, now)
			t.Claim(c.ID, owed)
			c.Items = append(c.Items, Item{TicketID: t.ID, Amount: owed})
		case t.Status == ticket.Transferred && owed > 0:
			c := claimOf(&claims, t.PaymentID, now)
			t.GiveRest()
			c.Items = append(c.Items, Item{TicketID: t.ID, Amount: owed})
		}
	}
	return claims, free
}

// claimOf returns the claim of a payment, and appends a new one if there is none.
func claimOf(claims *[]Claim, payment uuid.UUID, now time.Time) *Claim {
	i := slices.IndexFunc(*claims, func(c Claim) bool { return c.PaymentID == payment })
	if i < 0 {
		i = len(*claims)
		*claims = append(*claims, Claim{
			ID: uuid.Must(uuid.NewV7()), PaymentID: payment, Cause: EventCancelled, Status: Begun, BegunAt: now,
		})
	}
	return &(*claims)[i]
}
