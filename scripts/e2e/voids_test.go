package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

// voidAnswer is the answer to the void of a ticket or an order.
type voidAnswer struct {
	Status       string
	TicketIDs    []string
	OfflineDoors bool
}

func void(t *testing.T, p *harness.Platform, what, id string) (v voidAnswer) {
	t.Helper()
	p.Operator().MustCall(t.Context(), http.MethodPost, "/api/v1/admin/"+what+"/"+id+"/void", map[string]any{"reason": "stolen card"}, &v)
	return v
}

// TestVoid voids a buyer's only ticket, and a comp that nobody has claimed. Doors refuse the
// ticket, the order is VOIDED, the place is in the house, the money stays until an operator refunds
// it, and the comp's link does not work. The figures of stats agree with the tables.
func TestVoid(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	b := newBuyer(t, p, event)
	held := b.hold("A-1-1")
	paid := b.prepare(held)
	b.confirm(paid, "ok-"+uuid.NewString())
	b.awaitStatus(p, held, "CONFIRMED")
	ticket := b.shownTickets()[0]

	v := void(t, p, "tickets", ticket.TicketID)
	require.Equal(t, voidAnswer{Status: "VOIDED", TicketIDs: []string{ticket.TicketID}}, v)
	require.Equal(t, v, void(t, p, "tickets", ticket.TicketID), "a repeated call")
	door := p.Client("door", "staff")
	requireRefused(t, door, "/api/v1/check-in", map[string]any{"code": ticket.Code, "eventId": event, "deviceId": "Gate 1"}, http.StatusConflict, "NOT_VALID")
	shown := b.shownTickets()[0]
	require.Equal(t, []string{"VOIDED", "", "VOIDED"}, []string{shown.Status, shown.Code, shown.Refundable.Reason})
	b.awaitStatus(p, held, "VOIDED")
	var house struct{ SeatIDs []string }
	operator := p.Operator()
	operator.MustCall(t.Context(), http.MethodGet, "/api/v1/admin/events/"+event+"/house", nil, &house)
	require.Equal(t, []string{"A-1-1"}, house.SeatIDs)
	requireRefused(t, b.Client, "/api/v1/admin/tickets/"+ticket.TicketID+"/void", map[string]any{"reason": "mine"}, http.StatusForbidden, "ROLE_REQUIRED")

	var comp struct{ ReservationID, Claim string }
	operator.With("Idempotency-Key", uuid.NewString()).MustCall(t.Context(), http.MethodPost, "/api/v1/admin/events/"+event+"/comps",
		map[string]any{"name": "Press", "seatIds": []string{"A-1-1"}}, &comp)
	require.Equal(t, "VOIDED", void(t, p, "orders", comp.ReservationID).Status)
	requireRefused(t, b.Client, "/api/v1/my/tickets/claim", map[string]any{"claim": comp.Claim}, http.StatusNotFound, "TICKET_NOT_FOUND")

	p.Eventually(func(ctx context.Context) error {
		var figures struct {
			Counts        struct{ Created, Confirmed, SeatsSold int64 }
			Comps, Voided int64
		}
		a, err := operator.Call(ctx, http.MethodGet, "/api/v1/admin/stats/events/"+event, nil)
		if err == nil {
			err = a.Decode(&figures)
		}
		if c := figures.Counts; err == nil && (c.Created != 1 || c.Confirmed != 1 || c.SeatsSold != 0 || figures.Comps != 0 || figures.Voided != 2) {
			err = fmt.Errorf("figures %+v", figures)
		}
		return err
	})
	path := "/api/v1/admin/payments/" + paid.PaymentID + "/refund"
	r := requestRefund[refundAnswer](t, operator, path, uuid.NewString(), http.StatusAccepted)
	require.Equal(t, paid.Amount, r.Amount)
	b.awaitPayment(p, paid, "REFUNDED")
	requireCharged(t, p, paid, paid.Amount)
	require.Equal(t, "VOIDED", b.shownTickets()[0].Status)
	requireNoFaults(t, p, event)
}
