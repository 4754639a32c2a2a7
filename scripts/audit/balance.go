package audit

import "fmt"

// unbalanced lists the payments of a sale whose money differs from what it pays for. To the unit,
// the provider keeps
//
//	what its tickets were paid and have not given back, nor promised to
//	+ what is still to be refunded, or was paid back otherwise
//	− what a person gave back at the provider that counts for nothing yet
func (b saleRecords) unbalanced() []string {
	var out []string
	for _, p := range b.payments {
		kept, due := b.chargedNet(p.OrderID), b.money[p.ID].Amount+p.Open-p.ByHand
		if kept != due {
			out = append(out, fmt.Sprintf("order %s (%s): the provider keeps %d, not %d: %d for tickets, %d to be refunded, %d by hand",
				p.OrderID, p.Status, kept, due, b.money[p.ID].Amount, p.Open, p.ByHand))
		}
	}
	return out
}
