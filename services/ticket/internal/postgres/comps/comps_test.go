package comps_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/comp"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// setup puts an event of 10 seats and 10 admissions. The organiser keeps 3 of each (the house).
func setup(t *testing.T) *storetest.Service {
	t.Helper()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Mixed, storetest.Rows("A", 70, 1, 10), storetest.Admissions("F", 50, 10)))
	_, err := svc.Events.PutHouse(t.Context(), "e", event.HouseChange{
		Take: []string{"A-1-1", "A-1-2", "A-1-3"}, Standing: map[string]int64{"F": 3},
	})
	require.NoError(t, err)
	return svc
}

func request(t *testing.T, req comp.Request) comp.Request {
	t.Helper()
	key, err := idempotency.Require("op", "CreateComp", uuid.NewString(), req.Name)
	require.NoError(t, err)
	req.EventID, req.Name, req.IdempotencyKey = "e", "Press", key
	if len(req.SeatIDs) > 0 {
		req.Quantity = len(req.SeatIDs)
	}
	return req
}

func TestCompForAUser(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	svc.MustHoldSeats(t, "ann", "A-1-4", "A-1-5", "A-1-6", "A-1-7")
	req := request(t, comp.Request{SeatIDs: []string{"A-1-2", "A-1-1"}, UserID: "ann"})
	order, err := svc.Comps.Make(t.Context(), req)
	require.NoError(t, err, "outside everybody's limit")
	require.Equal(t, reservation.Confirmed, order.Status)
	require.Equal(t, []string{"A-1-1", "A-1-2"}, order.SeatIDs())
	require.Empty(t, order.Claim)
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED"}, svc.EventTypes(t, order.ID))
	require.Equal(t, "COMP", svc.OutboxEvents(t, order.ID)[1].Origin)
	again, err := svc.Comps.Make(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, order.ID, again.ID)

	tickets, err := svc.Tickets.ListTickets(t.Context(), "ann", 10, uuid.Nil)
	require.NoError(t, err)
	require.Len(t, tickets, 2)
	require.Zero(t, tickets[0].Paid)
	require.Equal(t, uuid.Nil, tickets[0].PaymentID)
	house, err := svc.Events.House(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-3"}, house.SeatIDs)
	require.EqualValues(t, 2, house.Sections[0].Comps)
	require.Zero(t, house.Sections[0].Sold, "given away, not sold")
	svc.RequireInvariants(t)

	for _, seats := range [][]string{{"A-1-3", "A-1-4"}, {"A-1-1"}, {"A-1-9"}} { // held, given, free
		_, err = svc.Comps.Make(t.Context(), request(t, comp.Request{SeatIDs: seats, UserID: "bob"}))
		require.ErrorIs(t, err, errs.ErrSeatTaken)
	}
	_, err = svc.Comps.Make(t.Context(), request(t, comp.Request{SeatIDs: []string{"Z-1-1"}}))
	require.ErrorIs(t, err, event.ErrSeatNotFound)
	svc.RequireInvariants(t)
}

func TestCompByALink(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	req := request(t, comp.Request{Section: "F", Quantity: 2})
	first, err := svc.Comps.Make(t.Context(), req)
	require.NoError(t, err)
	order, err := svc.Comps.Make(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, first.ID, order.ID)
	require.NotEqual(t, first.Claim, order.Claim, "it is not stored")
	require.Len(t, order.TicketIDs, 2)

	_, err = svc.Comps.Claim(t.Context(), first.Claim, "ann", purchase.Contact{Email: "guest@example.com", Language: "ko"})
	require.ErrorIs(t, err, ticket.ErrNotFound, "the repeated request has made another one")
	users := []string{"ann", "bob"}
	results := storetest.Concurrently(2, func(i int) error {
		_, err := svc.Comps.Claim(t.Context(), order.Claim, users[i], purchase.Contact{Email: "guest@example.com", Language: "ko"})
		return err
	})
	require.Equal(t, 1, storetest.CountSucceeded(t, results, ticket.ErrNotFound))
	winner := users[0]
	if results[0] != nil {
		winner = users[1]
	}
	countNotices := `SELECT count(*) FROM notices WHERE type = 'TICKETS_ISSUED' AND data ->> 'reservationId' = $1`
	require.EqualValues(t, 1, svc.Count(t, countNotices, order.ID.String()), "once, of whoever has claimed it")
	_, err = svc.Comps.Claim(t.Context(), order.Claim, winner, purchase.Contact{Email: "guest@example.com", Language: "ko"})
	require.NoError(t, err, "again")
	again, err := svc.Comps.Make(t.Context(), req)
	require.NoError(t, err)
	require.Empty(t, again.Claim, "somebody has it")
	tickets, err := svc.Tickets.ListTickets(t.Context(), winner, 10, uuid.Nil)
	require.NoError(t, err)
	require.Len(t, tickets, 2)
	for _, tk := range tickets {
		require.Equal(t, 2, tk.Serial, "the codes that operators have read are void, and a repeated claim voids nothing")
	}
	list, _, err := svc.Comps.List(t.Context(), "e", 10, uuid.Nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, winner, list[0].UserID)
	require.Equal(t, order.TicketIDs, list[0].TicketIDs)
	svc.RequireInvariants(t)

	_, err = svc.Comps.Make(t.Context(), request(t, comp.Request{Section: "F", Quantity: 2}))
	require.ErrorIs(t, err, errs.ErrSoldOut)
	_, err = svc.Comps.Make(t.Context(), request(t, comp.Request{Section: "A", Quantity: 1}))
	require.ErrorIs(t, err, event.ErrSectionNotFound)
}

// Two comps and a release of the house compete for one of its seats. At most one comp gets it.
func TestCompsAtOnce(t *testing.T) {
	t.Parallel()
	for range 10 {
		svc := setup(t)
		otherReplica := svc.Replica(t)
		reqs := []comp.Request{
			request(t, comp.Request{SeatIDs: []string{"A-1-1", "A-1-2"}, UserID: "ann"}), request(t, comp.Request{SeatIDs: []string{"A-1-2", "A-1-3"}}),
		}
		acts := []func() error{
			func() error { _, err := svc.Comps.Make(t.Context(), reqs[0]); return err },
			func() error { _, err := otherReplica.Comps.Make(t.Context(), reqs[1]); return err },
			func() error {
				_, err := svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Release: []string{"A-1-2"}})
				return err
			},
		}
		results := storetest.Concurrently(len(acts), func(i int) error { return acts[i]() })
		require.NoError(t, results[2])
		require.LessOrEqual(t, storetest.CountSucceeded(t, results[:2], errs.ErrSeatTaken), 1)
		svc.RequireInvariants(t)
		svc.RequireNoDeadlocks(t)
	}
}

// Cancelling an event ends its comps. No money is refunded for them.
func TestCompsOfACancelledEvent(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	orders := make([]comp.Comp, 2)
	for i, req := range []comp.Request{{SeatIDs: []string{"A-1-1"}, UserID: "ann"}, {Section: "F", Quantity: 3}} {
		var err error
		orders[i], err = svc.Comps.Make(t.Context(), request(t, req))
		require.NoError(t, err)
	}
	for _, act := range []event.Act{event.Cancel, event.Refund} {
		_, err := svc.Events.Act(t.Context(), "e", act, 0)
		require.NoError(t, err)
	}
	require.NoError(t, svc.Walker.Walk(t.Context()))
	for _, order := range orders {
		require.Equal(t, reservation.Refunded, svc.Find(t, order.ID).Status)
	}
	_, err := svc.Comps.Make(t.Context(), request(t, comp.Request{SeatIDs: []string{"A-1-2"}}))
	require.ErrorIs(t, err, event.ErrCancelled)
	_, err = svc.Comps.Claim(t.Context(), orders[1].Claim, "bob", purchase.Contact{Email: "guest@example.com", Language: "ko"})
	require.ErrorIs(t, err, ticket.ErrNotFound)
	svc.RequireInvariants(t)
}
