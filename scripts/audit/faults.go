package audit

import (
	"context"
	"slices"
)

// Faults has the inconsistencies of a sale, a sentence each. There may be none once nothing of the
// sale is in progress. Before that, a Kafka event that is still on its way can look like a fault.
type Faults struct {
	// PaidWithoutTicket are charged payments with neither ticket nor refund. StrayCharges are charges
	// that the payment service does not know.
	PaidWithoutTicket, StrayCharges []string
	// TicketWithoutPayment are sold reservations and valid tickets without a confirmed payment.
	TicketWithoutPayment []string
	// Open are payments that the buyer may still pay on a page, or whose outcome is unknown.
	Open []string
	// Unbalanced are payments for which the provider keeps more or less money than it should.
	Unbalanced []string
	// AdmittedAfterRefund are the ids of tickets that a door let in after their refund was decided.
	AdmittedAfterRefund []string
	// NotGivenBack is what is left of a cancelled event: holds, tickets, or money at the provider.
	NotGivenBack []string
	// Unpublished are Kafka events, of any sale, that are still in an outbox.
	Unpublished []string
	// Miscounted are figures of the stats service that differ from the Kafka events or the tables.
	Miscounted []string
}

func (f Faults) All() []string {
	return slices.Concat(
		prefixEach("paid without a ticket or a refund: ", f.PaidWithoutTicket),
		prefixEach("charged, and unknown to payment: ", f.StrayCharges),
		prefixEach("a ticket without a payment: ", f.TicketWithoutPayment),
		prefixEach("left open: ", f.Open),
		prefixEach("unbalanced: ", f.Unbalanced),
		prefixEach("opened after its refund: ticket ", f.AdmittedAfterRefund),
		prefixEach("cancelled, and not given back: ", f.NotGivenBack),
		prefixEach("not published: ", f.Unpublished),
		prefixEach("miscounted: ", f.Miscounted),
	)
}

// addSale adds the faults of another sale. It leaves out those that belong to no sale, such as
// unpublished Kafka events, because f already contains them.
func (f *Faults) addSale(other Faults) {
	f.PaidWithoutTicket = append(f.PaidWithoutTicket, other.PaidWithoutTicket...)
	f.TicketWithoutPayment = append(f.TicketWithoutPayment, other.TicketWithoutPayment...)
	f.Open = append(f.Open, other.Open...)
	f.Unbalanced = append(f.Unbalanced, other.Unbalanced...)
	f.AdmittedAfterRefund = append(f.AdmittedAfterRefund, other.AdmittedAfterRefund...)
	f.NotGivenBack = append(f.NotGivenBack, other.NotGivenBack...)
	f.Miscounted = append(f.Miscounted, other.Miscounted...)
}

func prefixEach(prefix string, sentences []string) []string {
	out := slices.Clone(sentences)
	slices.Sort(out)
	for i := range out {
		out[i] = prefix + out[i]
	}
	return out
}

// Faults compares the records of a sale, or those of memberships for NoEvent, with each other and
// with the payment provider's ledger.
func (s *Stores) Faults(ctx context.Context, eventID string) (f Faults, err error) {
	b, err := s.readSaleRecords(ctx, eventID)
	if err != nil {
		return f, err
	}
	f.PaidWithoutTicket, f.TicketWithoutPayment, f.Unbalanced = b.paidWithoutTicket(), b.ticketWithoutPayment(), b.describeUnbalancedPayments()
	f.Open = b.openPayments()
	if f.StrayCharges, err = s.unknownCharges(ctx, b); err != nil {
		return f, err
	}
	if f.AdmittedAfterRefund, err = s.admittedAfterRefund(ctx, eventID); err != nil {
		return f, err
	}
	if f.Unpublished, err = s.unpublishedEvents(ctx); err != nil {
		return f, err
	}
	if f.Miscounted, err = s.wrongFigures(ctx, eventID); err != nil {
		return f, err
	}
	for _, d := range allCountedFigures() {
		wrong, err := d.differences(ctx, s, eventID)
		if err != nil {
			return f, err
		}
		f.Miscounted = append(f.Miscounted, wrong...)
	}
	return f, nil
}
