package audit

import (
	"context"
	"slices"
)

// Faults is what must not be there once nothing of a sale is under way any more; while something is, a fault may be an event that has
// not arrived. Each is a sentence for people.
type Faults struct {
	// PaidWithoutTicket are payments that were made and neither honoured nor given back, StrayCharges those that payment does not know.
	PaidWithoutTicket, StrayCharges []string
	// TicketWithoutPayment are sold reservations and living tickets that nobody pays for, as after a refund.
	TicketWithoutPayment []string
	// Unpublished are events in an outbox, of any sale.
	Unpublished []string
	// Miscounted are figures of stats that are not those of the events and of the tables.
	Miscounted []string
}

// All lists every fault by its kind.
func (f Faults) All() []string {
	return slices.Concat(
		named("paid without a ticket or a refund: ", f.PaidWithoutTicket),
		named("charged, and unknown to payment: ", f.StrayCharges),
		named("a ticket without a payment: ", f.TicketWithoutPayment),
		named("not published: ", f.Unpublished),
		named("miscounted: ", f.Miscounted),
	)
}

func named(kind string, list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	for i := range out {
		out[i] = kind + out[i]
	}
	return out
}

// Faults compares the stores with each other and with the provider's ledger.
func (s *Stores) Faults(ctx context.Context, eventID string) (f Faults, err error) {
	b, err := s.books(ctx, eventID)
	if err != nil {
		return f, err
	}
	f.PaidWithoutTicket, f.TicketWithoutPayment = b.paidWithoutTicket(), b.ticketWithoutPayment()
	if f.StrayCharges, err = s.unknownCharges(ctx, b); err != nil {
		return f, err
	}
	if f.Unpublished, err = s.unpublished(ctx); err != nil {
		return f, err
	}
	f.Miscounted, err = s.miscounted(ctx, eventID)
	return f, err
}
