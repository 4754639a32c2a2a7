package rpc_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestHoldSeatsAnswersEachItemInItsPlace(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 2, 10)))
	c.put(t, putEvent("g", "GENERAL", admissions("S", 3)))
	c.holdSeats(t, "other", "A-2-1", "A-2-2")
	keyed := inside("k", "e")
	keyed.IdempotencyKey = "tab\t"
	type item = ticketv1.HoldSeatsItem
	items := []struct {
		item   *item
		reason string
	}{
		{&item{Caller: inside("u1", "e"), EventId: "e", SeatIds: []string{"A-1-1", "A-1-2"}}, ""},
		{&item{EventId: "e", SeatIds: []string{"A-1-3"}}, "UNAUTHENTICATED"},
		{&item{Caller: signedIn("u"), EventId: "e", SeatIds: []string{"A-1-3"}}, "WRONG_EVENT"},
		{&item{Caller: inside("u", "g"), EventId: "e", SeatIds: []string{"A-1-3"}}, "WRONG_EVENT"},
		{&item{Caller: inside("a b", "e"), EventId: "e", SeatIds: []string{"A-1-3"}}, "INVALID_ID"},
		{&item{Caller: inside("u", "e#"), EventId: "e#", SeatIds: []string{"A-1-3"}}, "INVALID_ID"},
		{&item{Caller: inside("u", "e"), EventId: "e"}, "INVALID_REQUEST"},
		{&item{Caller: inside("u", "e"), EventId: "e", SeatIds: make([]string, 1001)}, "INVALID_REQUEST"},
		{&item{Caller: inside("u", "e"), EventId: "e", SeatIds: []string{"A-1-3", "A-1-3"}}, "INVALID_REQUEST"},
		{&item{Caller: inside("u", "e"), EventId: "e", SeatIds: []string{"A-1-03"}}, "INVALID_ID"},
		{&item{Caller: inside("u", "e"), EventId: "e", SeatIds: []string{"'; DROP"}}, "INVALID_ID"},
		{&item{Caller: keyed, EventId: "e", SeatIds: []string{"A-1-3"}}, "IDEMPOTENCY_KEY_INVALID"},
		{&item{Caller: inside("u", "e"), EventId: "e", SeatIds: []string{"Z-1-3"}}, "SEAT_NOT_FOUND"},
		{&item{Caller: inside("u", "x"), EventId: "x", SeatIds: []string{"A-1-3"}}, "EVENT_NOT_FOUND"},
		{&item{Caller: inside("u", "g"), EventId: "g", SeatIds: []string{"A-1-3"}}, "SEATING_MISMATCH"},
		{&item{Caller: inside("u", "e"), EventId: "e", SeatIds: []string{"A-2-1", "A-1-3"}}, "SEAT_TAKEN"},
		{&item{Caller: inside("u", "e"), EventId: "e", SeatIds: []string{"A-1-3", "A-1-4", "A-1-5", "A-1-6", "A-1-7"}}, "LIMIT_EXCEEDED"},
		{&item{Caller: inside("u2", "e"), EventId: "e", SeatIds: []string{"A-1-4"}}, ""},
	}
	req := &ticketv1.HoldSeatsRequest{}
	for _, i := range items {
		req.Items = append(req.Items, i.item)
	}
	res, err := c.HoldSeats(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, res.GetResults(), len(items))
	for i, r := range res.GetResults() {
		require.Equal(t, items[i].reason, r.GetProblem().GetReason(), "item %d", i)
		require.Equal(t, items[i].reason == "", r.GetReservation() != nil, "item %d", i)
		if items[i].reason == "SEAT_TAKEN" {
			require.Equal(t, map[string]string{"seatIds": "A-2-1"}, r.GetProblem().GetMetadata())
			require.Equal(t, "conflict", r.GetProblem().GetKind())
		}
	}
	held := res.GetResults()[0].GetReservation()
	require.Equal(t, "HELD", held.GetStatus())
	require.Equal(t, "u1", held.GetUserId())
	require.EqualValues(t, 110000, held.GetAmount())
	require.EqualValues(t, 2, held.GetQuantity())
	require.Equal(t, "A-1-2", held.GetSeats()[1].GetSeatId())
	require.EqualValues(t, 2, held.GetSeats()[1].GetNumber())
	c.requireIn(t, holdFor, held.GetExpiresAt())

	_, err = c.HoldSeats(t.Context(), &ticketv1.HoldSeatsRequest{})
	requireReason(t, err, "INVALID_REQUEST", "items")
}

func TestHoldBestAnswersEachItemInItsPlace(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	c.put(t, putEvent("g", "GENERAL", admissions("S", 30)))
	type item = ticketv1.HoldBestItem
	req := &ticketv1.HoldBestRequest{Items: []*item{
		{Caller: inside("u", "g"), EventId: "g", Section: "S", Quantity: 0},
		{Caller: inside("u", "g"), EventId: "g", Section: "S-1", Quantity: 1},
		{Caller: inside("u", "g"), EventId: "e", Section: "A", Quantity: 1},
		{Caller: inside("u", "g"), EventId: "g", Section: "T", Quantity: 1},
		{Caller: inside("u", "g"), EventId: "g", Section: "S", Quantity: 5},
		{Caller: inside("u", "e"), EventId: "e", Section: "A", Quantity: 3},
		{Caller: inside("v", "e"), EventId: "e", Section: "B", Quantity: 3},
	}}
	want := []string{"INVALID_REQUEST", "INVALID_ID", "WRONG_EVENT", "SECTION_NOT_FOUND", "LIMIT_EXCEEDED", "", "SECTION_NOT_FOUND"}
	for i := range 9 {
		req.Items = append(req.Items, &item{Caller: inside(fmt.Sprintf("b%d", i), "g"), EventId: "g", Section: "S", Quantity: 4})
	}
	res, err := c.HoldBest(t.Context(), req)
	require.NoError(t, err)
	for i, w := range want {
		require.Equal(t, w, res.GetResults()[i].GetProblem().GetReason(), "item %d", i)
	}
	held, soldOut := 0, 0
	for _, r := range res.GetResults()[len(want):] {
		switch {
		case r.GetReservation() != nil:
			held++
			require.Equal(t, "S", r.GetReservation().GetSection())
			require.EqualValues(t, 4*33000, r.GetReservation().GetAmount())
		case r.GetProblem().GetReason() == "SOLD_OUT":
			soldOut++
		}
	}
	require.Equal(t, [2]int{7, 2}, [2]int{held, soldOut}, "28 of 30 places in fours")

	// Another seat in the row of the three seats held above can still be held.
	another := c.holdSeats(t, "w", firstFree(res.GetResults()[5].GetReservation()))
	require.NotNil(t, another)
}

// firstFree returns the first seat of row A-1 that is not in r.
func firstFree(r *ticketv1.Reservation) string {
	taken := map[string]bool{}
	for _, s := range r.GetSeats() {
		taken[s.GetSeatId()] = true
	}
	for i := 1; ; i++ {
		if id := fmt.Sprintf("A-1-%d", i); !taken[id] {
			return id
		}
	}
}

func TestHoldIdempotencyOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	hold := func(key string, seats ...string) *ticketv1.HoldResult {
		caller := inside("u", "e")
		caller.IdempotencyKey = key
		res, err := c.HoldSeats(t.Context(), &ticketv1.HoldSeatsRequest{Items: []*ticketv1.HoldSeatsItem{{Caller: caller, EventId: "e", SeatIds: seats}}})
		require.NoError(t, err)
		return res.GetResults()[0]
	}
	first := hold("k", "A-1-1", "A-1-2").GetReservation()
	require.NotNil(t, first)
	require.Equal(t, first.GetReservationId(), hold("k", "A-1-2", "A-1-1").GetReservation().GetReservationId(), "the order means nothing")
	require.Equal(t, "IDEMPOTENCY_KEY_REUSED", hold("k", "A-1-1").GetProblem().GetReason())
	best := inside("u", "e")
	best.IdempotencyKey = "k"
	res, err := c.HoldBest(t.Context(), &ticketv1.HoldBestRequest{Items: []*ticketv1.HoldBestItem{{Caller: best, EventId: "e", Section: "A", Quantity: 1}}})
	require.NoError(t, err)
	require.NotNil(t, res.GetResults()[0].GetReservation(), "a key belongs to its route")
}

func TestHoldsAreCounted(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	before := holdCounts(t)
	c.holdSeats(t, "u", "A-1-1")
	res, err := c.HoldSeats(t.Context(), &ticketv1.HoldSeatsRequest{Items: []*ticketv1.HoldSeatsItem{{Caller: inside("v", "e"), EventId: "e", SeatIds: []string{"A-1-1"}}}})
	require.NoError(t, err)
	require.NotNil(t, res.GetResults()[0].GetProblem())
	after := holdCounts(t)
	require.Greater(t, after["HELD"], before["HELD"])
	require.Greater(t, after["SEAT_TAKEN"], before["SEAT_TAKEN"])
}

// holdCounts reads urr_holds_total by result.
func holdCounts(t *testing.T) map[string]float64 {
	t.Helper()
	return metricstest.ByLabel(t, "urr_holds_total", "result")
}

// Without its database the service refuses each item at once.
func TestWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	c.pool.Close()
	ctx := t.Context()
	res, err := c.HoldSeats(ctx, &ticketv1.HoldSeatsRequest{Items: []*ticketv1.HoldSeatsItem{
		{Caller: inside("u", "e"), EventId: "e", SeatIds: []string{"A-1-1"}}, {Caller: inside("v", "e"), EventId: "e", SeatIds: []string{"A-1-2"}},
	}})
	require.NoError(t, err)
	for _, r := range res.GetResults() {
		require.Equal(t, "UNAVAILABLE", r.GetProblem().GetReason())
	}
	_, err = c.GetMyReservation(ctx, &ticketv1.GetReservationRequest{Caller: signedIn("u"), ReservationId: uuid.NewString()})
	requireReason(t, err, "UNAVAILABLE")
}
