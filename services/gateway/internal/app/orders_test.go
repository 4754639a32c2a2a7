package app_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// An operator gets an order with the data of the ticket and the payment service, and one timeline.
func TestOrderOfBothServices(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("op", "admin")
	order := jsonOf(t, w.do(http.MethodGet, "/api/v1/admin/orders/"+knownOrder, "", admin))
	require.Equal(t, "order-1", order["payments"].([]any)[0].(map[string]any)["orderId"])
	require.Empty(t, order["unreachable"])
	var steps [][2]any
	var notes []any
	for _, step := range order["timeline"].([]any) {
		s, _ := step.(map[string]any)
		steps, notes = append(steps, [2]any{s["of"], s["status"]}), append(notes, s["note"])
	}
	require.Equal(t, [][2]any{
		{"reservation", "HELD"}, {"payment", "PREPARED"}, {"payment", "CONFIRMED"}, {"reservation", "CONFIRMED"}, {"ticket", "VALID"},
		{"refund", "REQUESTED"}, {"scan", "ADMITTED"}, {"ticket", "VOIDED"},
	}, steps)
	require.Equal(t, "op: stolen card", notes[len(notes)-1])
	require.Equal(t, "op", w.payment.of("FindPayments")[0].caller.GetUserId())
	require.Equal(t, []string{"admin"}, w.ticket.of("GetOrder")[0].caller.GetRoles())

	w.payment.down.Store(true)
	order = jsonOf(t, w.do(http.MethodGet, "/api/v1/admin/orders/"+knownOrder, "", admin))
	require.Equal(t, []any{"payment"}, order["unreachable"], "it says whose part is missing")
	require.Empty(t, order["payments"])
	require.Len(t, order["tickets"], 1)

	rec := w.do(http.MethodGet, "/api/v1/admin/orders/"+absentOrder, "", admin)
	require.Equal(t, http.StatusNotFound, rec.Code)
	require.Equal(t, "RESERVATION_NOT_FOUND", problemOf(t, rec)["code"])
	rec = w.do(http.MethodGet, "/api/v1/admin/orders/x", "", admin)
	require.Equal(t, http.StatusBadRequest, rec.Code)
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, "/api/v1/admin/orders/"+knownOrder, "", w.session(alice, "staff")).Code)
}

// The payment service finds orders by a provider's order id. Other searches do not call it.
func TestSearchOrders(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("op", "admin")
	found := jsonOf(t, w.do(http.MethodGet, "/api/v1/admin/orders?user=u&eventId=e&seat=A-1-1&limit=5", "", admin))
	require.Len(t, found["items"], 1)
	require.Equal(t, "next", found["nextCursor"])
	request, _ := w.ticket.of("SearchOrders")[0].msg.(*ticketv1.SearchOrdersRequest)
	require.Equal(t, "u e A-1-1", request.GetUser()+" "+request.GetEventId()+" "+request.GetSeat())
	require.Empty(t, w.payment.of("FindPayments"))

	found = jsonOf(t, w.do(http.MethodGet, "/api/v1/admin/orders?orderId=order-1&user=u", "", admin))
	require.Len(t, found["items"], 1)
	request, _ = w.ticket.of("SearchOrders")[1].msg.(*ticketv1.SearchOrdersRequest)
	require.Equal(t, knownOrder, request.GetReservationId())
	require.Equal(t, "u", request.GetUser())
	require.Empty(t, request.GetOrderId())
	for _, query := range []string{"orderId=unknown", "orderId=order-1&reservationId=" + absentOrder} {
		found = jsonOf(t, w.do(http.MethodGet, "/api/v1/admin/orders?"+query, "", admin))
		require.Empty(t, found["items"], query)
	}
	require.Len(t, w.ticket.of("SearchOrders"), 2)

	w.payment.down.Store(true)
	rec := w.do(http.MethodGet, "/api/v1/admin/orders?orderId=order-1", "", admin)
	require.Equal(t, "UNAVAILABLE", problemOf(t, rec)["code"])
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, "/api/v1/admin/orders?user=u", "", w.session(alice)).Code)
}
