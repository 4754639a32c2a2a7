package audit

import "fmt"

// describeUnbalancedPayments describes the payments of a sale for which the provider keeps a wrong
// amount of money. The right amount is
//
//	what was paid for the tickets, or the membership, less what was or will be given back
//	+ the refunds that the provider has not made: those to come, and those paid in another way
//	− the amount that a person refunded at the provider and that matches no ticket yet
func (b saleRecords) describeUnbalancedPayments() []string {
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
