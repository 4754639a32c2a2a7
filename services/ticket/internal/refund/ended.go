package refund

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/ticket"
)

// ClaimForEndedEvent decides on locked tickets of an ended event. It claims the tickets for which
// money is owed, with one claim per payment. It ends tickets for which nothing is owed, and returns
// them as free. Tickets that a refund or a transfer is changing stay as they are.
func ClaimForEndedEvent(tickets []*ticket.Ticket, now time.Time) (claims []Claim, free []*ticket.Ticket) {
	for _, t := range tickets {
		switch owed := t.Owed(); {
		case t.Admits() && owed == 0:
			t.End()
			free = append(free, t)
		case t.Admits():
			c := claimOf(&claims, t.PaymentID, now)
			t.Claim(c.ID, owed)
			c.Items = append(c.Items, Item{TicketID: t.ID, Amount: owed})
		case (t.Status == ticket.Transferred || t.Status == ticket.Voided) && owed > 0:
			c := claimOf(&claims, t.PaymentID, now)
			t.PromiseRest()
			c.Items = append(c.Items, Item{TicketID: t.ID, Amount: owed})
		}
	}
	return claims, free
}

// claimOf returns the claim for this payment; if claims has none, it appends one.
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
