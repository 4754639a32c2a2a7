package ticket

import (
	"time"

	"github.com/google/uuid"
)

// Reserve keeps a VALID ticket for a buyer who is about to be charged.
func (t *Ticket) Reserve() { t.Status = Transferring }

// Return makes a ticket VALID again after its buyer did not pay.
func (t *Ticket) Return() { t.Status = Valid }

// PassOn ends the ticket for its holder, who will get the price, and returns the ticket of the new
// holder, who has accepted it at this time; it has its own code. payment is zero for a gift.
func (t *Ticket) PassOn(holder string, price int64, payment uuid.UUID, accepted time.Time) Ticket {
	passed := Ticket{
		ID: uuid.Must(uuid.NewV7()), Previous: t.ID, PreviousHolder: t.UserID, ReservationID: t.ReservationID, N: t.N, EventID: t.EventID,
		UserID: holder, Section: t.Section, Seat: t.Seat, Price: t.Price, Paid: price, Currency: t.Currency, PaymentID: payment, Status: Valid, Serial: 1,
		ChosenAt: accepted,
	}
	t.Status = Transferred
	t.GivenBack += price
	return passed
}
