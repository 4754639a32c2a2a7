package crowd

// Bend and Arrivals are the functions that tests look at from outside.
var (
	Bend     = bend
	Arrivals = arrivals
)

// Ticket notes a ticket as a visitor does who sees it.
func (t *Tally) Ticket(seat, user string) { t.ticket(seat, user) }
