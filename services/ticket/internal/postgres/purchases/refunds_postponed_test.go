package purchases_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/transfer"
)

// requireBack fails the test unless the user of a payment gets this amount back for its ticket, by a
// refund as by what is shown.
func requireBack(t *testing.T, svc *storetest.Service, p purchase.Payment, amount int64, full bool) {
	t.Helper()
	shown, err := svc.Tickets.FindTicket(t.Context(), svc.TicketIDs(t, p)[0])
	require.NoError(t, err)
	offer := refund.OfferTo(&shown.Ticket, refund.Terms{AfterSaleTerms: shown.Closing, Now: shown.Now})
	require.Equal(t, []any{amount, full}, []any{offer.Amount, !offer.FullUntil.IsZero()})
	c := svc.BeginRefund(t, svc.RefundRequest(p, refund.User))
	require.Equal(t, refund.Begun, c.Status)
	require.Equal(t, amount, c.Items[0].Amount)
	require.NoError(t, svc.Refunds.Abort(t.Context(), c.ID))
}

// The right to everything back belongs to what was held before the latest postponement, also if it was
// charged during it, or bought from another user before it.
func TestWhoBuysAfterAPostponement(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	spec.CancellationFees = &event.CancellationFees{{Until: spec.StartsAt, Percent: 50}}
	spec.Transferable = new(event.TransferPriced)
	svc.Put(t, spec)
	postpone := func(days int, p event.Postponement) {
		t.Helper()
		p.StartsAt = spec.StartsAt.Add(time.Duration(days) * 24 * time.Hour)
		svc.Clock.Advance(time.Minute)
		_, err := svc.Events.Postpone(t.Context(), "e", p)
		require.NoError(t, err)
		svc.Clock.Advance(time.Minute)
	}
	pass := func(p purchase.Payment, buyer string) purchase.Payment {
		t.Helper()
		offered, claim, err := svc.Transfers.Offer(t.Context(), transfer.Request{TicketID: svc.TicketIDs(t, p)[0], Seller: p.UserID, Price: 70}, nil)
		require.NoError(t, err)
		_, err = svc.Transfers.Accept(t.Context(), buyer, purchase.Contact{}, claim, uuid.Nil)
		require.NoError(t, err)
		paid := purchase.Payment{ID: uuid.New(), UserID: buyer, EventID: "e", Amount: 70, Currency: "KRW"}
		svc.Settle(t, settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Transfer, ReferenceID: offered.ID, Payment: paid})
		return paid
	}
	_, before := buy(t, svc, "before", "A-1-1")
	_, sold := buy(t, svc, "seller", "A-1-2")
	bought := pass(sold, "buyer")
	requireBack(t, svc, before, 35, false)

	held := svc.MustHoldSeats(t, "paying", "A-1-5")
	postpone(30, event.Postponement{})
	paying := storetest.Payment(held)
	svc.Confirm(t, held, paying)
	requireBack(t, svc, paying, 70, true)
	_, between := buy(t, svc, "between", "A-1-3")
	requireBack(t, svc, before, 70, true)
	requireBack(t, svc, bought, 70, true)
	requireBack(t, svc, between, 35, false)
	requireBack(t, svc, pass(bought, "later"), 35, false)
	asked := svc.RefundRequest(between, refund.User)

	postpone(60, event.Postponement{})
	_, after := buy(t, svc, "after", "A-1-4")
	requireBack(t, svc, before, 70, true)
	requireBack(t, svc, between, 70, true)
	requireBack(t, svc, after, 35, false)
	require.EqualValues(t, 70, svc.BeginRefund(t, asked).Items[0].Amount, "asked before the second one, decided after it")

	until := svc.Clock.Now().Add(time.Hour)
	postpone(60, event.Postponement{RefundUntil: until}) // the date stays; only the time of full refunds changes
	requireBack(t, svc, before, 70, true)
	requireBack(t, svc, after, 35, false)
	svc.RequireInvariants(t)
}

// Terms of a former postponement give nothing to whoever bought after it.
func TestFormerTermsOfAPostponement(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	spec.UserRefunds = &event.UserRefunds{None: true}
	svc.Put(t, spec)
	_, before := buy(t, svc, "before", "A-1-1")
	svc.Clock.Advance(time.Minute)
	spec.StartsAt = spec.StartsAt.Add(30 * 24 * time.Hour)
	_, err := svc.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: spec.StartsAt})
	require.NoError(t, err)
	_, after := buy(t, svc, "after", "A-1-2")
	requests := []refund.Request{svc.RefundRequest(before, refund.User), svc.RefundRequest(after, refund.User)}
	svc.Clock.Advance(time.Minute)
	spec.CancellationFees = &event.CancellationFees{{Until: spec.StartsAt, Percent: 10}}
	svc.Put(t, spec)
	_, err = svc.Pool.Exec(t.Context(), `UPDATE events SET fees_until = NULL`) // only the former terms give anything
	require.NoError(t, err)
	require.Equal(t, refund.Begun, svc.BeginRefund(t, requests[0]).Status)
	refused := svc.BeginRefund(t, requests[1])
	require.Equal(t, refund.Refused, refused.Status)
	require.Equal(t, refund.ExcludedNoRefunds, refused.Excluded[0].Reason)
}
