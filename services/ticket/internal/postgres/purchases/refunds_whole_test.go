package purchases_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/transfer"
)

// buyWhole buys seats by a payment that can be refunded as a whole only.
func buyWhole(t *testing.T, svc *storetest.Service, user string, seats ...string) purchase.Payment {
	t.Helper()
	r := svc.MustHoldSeats(t, user, seats...)
	p := storetest.Payment(r)
	p.WholeOnly = true
	svc.Confirm(t, r, p)
	return p
}

// shownReason returns why a ticket cannot be given back, as its holder sees it.
func shownReason(t *testing.T, svc *storetest.Service, id uuid.UUID) string {
	t.Helper()
	shown, err := svc.Tickets.FindTicket(t.Context(), id)
	require.NoError(t, err)
	return refund.OfferTo(&shown.Ticket, refund.Terms{AfterSaleTerms: shown.Closing, Now: shown.Now}).Reason
}

// A payment of which the provider can give no part back is given back as a whole, or not at all: not
// without its fees, nor one ticket of several.
func TestRefundsOfWholePaymentsOnly(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	section := storetest.Rows("A", 70, 1, 9)
	svc.Put(t, storetest.Spec("e", event.Assigned, section))
	two := buyWhole(t, svc, "u", "A-1-1", "A-1-2")
	ids := svc.TicketIDs(t, two)
	for _, cause := range []refund.Cause{refund.User, refund.Operator} {
		c := begin(t, svc, two, cause, ids[0])
		require.Equal(t, []any{refund.Refused, refund.ReasonOnlyWhole}, []any{c.Status, c.Reason})
	}
	require.Equal(t, refund.ReasonOnlyWhole, shownReason(t, svc, ids[0]))
	require.Equal(t, refund.Begun, begin(t, svc, two, refund.User).Status, "all tickets")

	one := buyWhole(t, svc, "v", "A-1-3")
	require.Empty(t, shownReason(t, svc, svc.TicketIDs(t, one)[0]))
	require.Equal(t, refund.Begun, begin(t, svc, one, refund.User).Status)

	section.Fee = 10
	spec := storetest.Spec("f", event.Assigned, section)
	svc.Put(t, spec)
	r, err := svc.Holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: "f", UserID: "u", SlotID: "slot-u", SeatIDs: []string{"A-1-1"}})
	require.NoError(t, err)
	fees := storetest.Payment(r)
	fees.WholeOnly = true
	svc.Confirm(t, r, fees)
	require.Equal(t, refund.ReasonOnlyWhole, begin(t, svc, fees, refund.User).Reason, "its fee is kept")
	require.Equal(t, refund.Begun, begin(t, svc, fees, refund.Operator).Status)
}

// A seller gets the price out of what was paid for the ticket: as a part of it, that is not possible.
func TestOffersOfWholePaymentsOnly(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	spec.Transferable = new(event.TransferPriced)
	svc.Put(t, spec)
	offer := func(p purchase.Payment, price int64) error {
		_, _, err := svc.Transfers.Offer(t.Context(), transfer.Request{TicketID: svc.TicketIDs(t, p)[0], Seller: p.UserID, Price: price}, nil)
		return err
	}
	requireReason := func(err error, reason string) {
		t.Helper()
		require.ErrorIs(t, err, transfer.ErrNotTransferable)
		require.Equal(t, reason, errs.From(err).Metadata["reason"])
	}
	two := buyWhole(t, svc, "u", "A-1-1", "A-1-2")
	requireReason(offer(two, 70), transfer.OnlyWholeOrder)
	require.NoError(t, offer(two, 0), "as a gift")
	one := buyWhole(t, svc, "v", "A-1-3")
	requireReason(offer(one, 60), transfer.OnlyWholeOrder)
	require.NoError(t, svc.EventStore.PutTakers(t.Context(), event.Takers{
		{Provider: "toss", Currencies: map[string]event.AmountLimits{"KRW": {Smallest: 100, Step: 1}}},
	}))
	requireReason(offer(one, 70), transfer.PriceNotTaken)
	require.NoError(t, svc.EventStore.PutTakers(t.Context(), event.Takers{{Provider: "sandbox"}}))
	require.NoError(t, offer(one, 70), "all of it")

	_, claim, err := svc.Transfers.Offer(t.Context(), transfer.Request{TicketID: svc.TicketIDs(t, buyWhole(t, svc, "w", "A-1-4"))[0], Seller: "w", Price: 70}, nil)
	require.NoError(t, err)
	accepted, err := svc.Transfers.Accept(t.Context(), "buyer", purchase.Contact{}, claim, uuid.Nil)
	require.NoError(t, err)
	paid := purchase.Payment{ID: uuid.New(), UserID: "buyer", EventID: "e", Amount: 70, Currency: "KRW", WholeOnly: true}
	svc.Settle(t, settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Transfer, ReferenceID: accepted.ID, Payment: paid})
	requireReason(offer(paid, 60), transfer.OnlyWholeOrder)
}
