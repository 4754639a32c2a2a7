package refund

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/ticket"
)

// ForEnded ends the tickets of an event that has ended: it claims all that is owed, one claim for each
// payment, and ends those tickets for which nothing is owed, which it returns. The tickets are locked. A
// ticket in another status is left to what has brought it there.
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

// claimOf returns the claim of a payment, and adds it if there is none.
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
