package voids_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/comp"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/void"
)

// An operator's refund gives back what was paid for voided tickets, named or not, once. The tickets
// and their places stay as they are. If the provider refuses the refund, it is owed again.
func TestRefundAfterAVoid(t *testing.T) {
	t.Parallel()
	s := open(t)
	r, p, ids := s.buy("a", "A-1-1", "A-1-2")
	s.Void(t, void.Request{ReservationID: r.ID})
	byUser := s.BeginRefund(t, s.RefundRequest(p, refund.User))
	require.Equal(t, refund.ReasonNotRefundable, byUser.Reason)

	req := s.RefundRequest(p, refund.Operator)
	req.TicketIDs = ids[:1]
	c := s.BeginRefund(t, req)
	require.Equal(t, []refund.Item{{TicketID: ids[0], Amount: 75}}, c.Items)
	require.EqualValues(t, 75, s.find(ids[0]).GivenBack)
	s.RequireInvariants(t)
	require.NoError(t, s.Refunds.Abort(t.Context(), c.ID))
	require.Zero(t, s.find(ids[0]).GivenBack)

	c = s.BeginRefund(t, s.RefundRequest(p, refund.Operator))
	require.Len(t, c.Items, 2, "without names, all of the payment")
	s.Settle(t, storetest.MadeRefund(c, p))
	for _, id := range ids {
		require.Equal(t, []any{ticket.Voided, int64(75)}, []any{s.find(id).Status, s.find(id).GivenBack})
	}
	require.Equal(t, reservation.Voided, s.Find(t, r.ID).Status)
	again := s.BeginRefund(t, one(s, p, ids[0]))
	require.Equal(t, []refund.ExcludedTicket{{TicketID: ids[0], Reason: "VOIDED"}}, again.Excluded, "nothing is left")
	s.RequireInvariants(t)
}

// one returns an operator's request for a refund of one ticket.
func one(s *shop, p purchase.Payment, id uuid.UUID) refund.Request {
	req := s.RefundRequest(p, refund.Operator)
	req.TicketIDs = []uuid.UUID{id}
	return req
}

// Whoever has paid for a voided ticket of a cancelled event gets the money back.
func TestVoidedTicketsOfACancelledEvent(t *testing.T) {
	t.Parallel()
	s := open(t)
	whole, _, _ := s.buy("a", "A-1-1")
	part, _, ids := s.buy("b", "A-1-2", "A-1-3")
	s.Void(t, void.Request{ReservationID: whole.ID})
	s.Void(t, void.Request{TicketID: ids[0]})
	for _, act := range []event.Act{event.Cancel, event.Refund} {
		_, err := s.Events.Act(t.Context(), "e", act, 0)
		require.NoError(t, err)
	}
	for range 2 {
		require.NoError(t, s.Walker.Walk(t.Context()))
		s.Clock.Advance(time.Hour)
	}
	require.Zero(t, s.Count(t, `SELECT count(*) FROM tickets WHERE given < paid`))
	for id, items := range map[uuid.UUID]int{whole.ID: 1, part.ID: 2} {
		var due []storetest.OutboxEvent
		for _, e := range s.OutboxEvents(t, id) {
			if e.Type == "TICKETS_REFUND_DUE" {
				due = append(due, e)
			}
		}
		require.Len(t, due, 1)
		require.Len(t, due[0].Items, items)
		s.Settle(t, storetest.MadeRefund(&refund.Claim{ID: uuid.MustParse(due[0].ClaimID), Cause: refund.EventCancelled}, purchase.Payment{}))
	}
	require.Equal(t, ticket.Voided, s.find(ids[0]).Status)
	require.Equal(t, reservation.Voided, s.Find(t, whole.ID).Status)
	require.Equal(t, reservation.Refunded, s.Find(t, part.ID).Status)
	s.RequireInvariants(t)
}

// The link of a comp that was voided works no more, and no new one is made. The places of a comp
// that somebody has claimed come back to the house too, and its holder is told.
func TestVoidOfComps(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, err := s.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-1", "A-1-2"}, Standing: map[string]int64{"F": 4}})
	require.NoError(t, err)
	key, err := idempotency.Require("op", "CreateComp", uuid.NewString(), "x")
	require.NoError(t, err)
	unclaimed := comp.Request{EventID: "e", Name: "Press", Section: "F", Quantity: 4, IdempotencyKey: key}
	byLink, err := s.Comps.Make(t.Context(), unclaimed)
	require.NoError(t, err)
	claimed, err := s.Comps.Make(t.Context(), comp.Request{EventID: "e", Name: "Guests", SeatIDs: []string{"A-1-1", "A-1-2"}, Quantity: 2})
	require.NoError(t, err)
	_, err = s.Comps.Claim(t.Context(), claimed.Claim, "guest", purchase.Contact{})
	require.NoError(t, err)

	require.Equal(t, reservation.Voided, s.Void(t, void.Request{ReservationID: byLink.ID}).Status)
	_, err = s.Comps.Claim(t.Context(), byLink.Claim, "stranger", purchase.Contact{})
	require.ErrorIs(t, err, ticket.ErrNotFound)
	again, err := s.Comps.Make(t.Context(), unclaimed)
	require.NoError(t, err)
	require.Empty(t, again.Claim)
	require.Equal(t, reservation.Voided, again.Status)
	require.Zero(t, s.Count(t, `SELECT count(*) FROM notices WHERE type = 'TICKETS_VOIDED'`), "there is nobody to tell")

	s.Void(t, void.Request{ReservationID: claimed.ID})
	require.EqualValues(t, 1, s.Count(t, `SELECT count(*) FROM notices WHERE type = 'TICKETS_VOIDED' AND data ->> 'userId' = 'guest'`))
	last := s.OutboxEvents(t, claimed.ID)[2]
	require.Equal(t, []string{"TICKETS_VOIDED", "VOIDED", "COMP"}, []string{last.Type, last.Status, last.Origin})
	house, err := s.Events.House(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-1", "A-1-2"}, house.SeatIDs)
	require.Equal(t, []event.HouseSection{{Name: "A", Seated: true, Capacity: 40, House: 2}, {Name: "F", Capacity: 10, House: 4}}, house.Sections)
	s.RequireInvariants(t)
}
