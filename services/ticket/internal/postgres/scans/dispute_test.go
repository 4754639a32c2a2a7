package scans_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
)

func disputed(p purchase.Payment, open bool, version int64) settlement.PaymentEvent {
	return settlement.PaymentEvent{Key: uuid.NewString(), Payment: p, Dispute: &settlement.Dispute{Open: open, Version: version}}
}

// A ticket with a disputed charge still admits its bearer, and the door shows the dispute. If
// events about disputes arrive out of order, the one with the highest version counts.
func TestDisputedTicketsAtTheDoor(t *testing.T) {
	t.Parallel()
	h := open(t)
	b, other := h.buy(t, "u", "A-1-1"), h.buy(t, "v", "A-1-2")
	h.Settle(t, disputed(b.payment, true, 5))
	require.True(t, h.find(t, b.id).Disputed)
	o := h.mustCheckIn(t, b.code)
	require.True(t, o.Ticket.Disputed)
	require.False(t, h.mustCheckIn(t, other.code).Ticket.Disputed)

	h.Settle(t, disputed(b.payment, false, 9))
	again := disputed(b.payment, true, 5)
	h.Settle(t, again, again)
	require.False(t, h.find(t, b.id).Disputed, "of an older version")
	h.Settle(t, disputed(b.payment, true, 12), disputed(b.payment, false, 11))
	require.True(t, h.find(t, b.id).Disputed)
	require.Equal(t, ticket.Used, h.find(t, b.id).Status)
}

// An event about a dispute may be in one batch with the event that issues or ends the ticket.
func TestDisputeInOneBatch(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.MustHoldSeats(t, "u", "A-1-1", "A-1-2")
	p := storetest.Payment(r)
	h.Settle(t, settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: p}, disputed(p, true, 3))
	ids := h.TicketIDs(t, p)
	require.Len(t, ids, 2)
	require.True(t, h.find(t, ids[0]).Disputed)
	c := h.BeginRefund(t, h.RefundRequest(p, refund.ByHand))
	h.Settle(t, disputed(p, false, 4), storetest.MadeRefund(c, p))
	for _, id := range ids {
		require.Equal(t, ticket.Refunded, h.find(t, id).Status)
		require.False(t, h.find(t, id).Disputed)
	}
	h.RequireInvariants(t)
	h.Settle(t, disputed(purchase.Payment{ID: uuid.New()}, true, 1)) // a payment without tickets
}
