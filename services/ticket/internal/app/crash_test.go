//go:build failpoint

package app_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func (p *process) dies(ended chan error) {
	p.t.Helper()
	select {
	case err := <-ended:
		require.ErrorContains(p.t, err, "killed")
	case <-time.After(60 * time.Second):
		p.t.Fatal("the failpoint was never reached")
	}
}

// Whoever's answer was lost with the process asks again, and gets the hold that was made.
func TestCrashAfterAHold(t *testing.T) {
	t.Parallel()
	general := int64(10)
	for name, c := range map[string]struct {
		seating string
		section *ticketv1.SectionSpec
		hold    func(p *process) (*ticketv1.HoldResponse, error)
	}{
		"named seats": {"ASSIGNED", rows("A", 1, 10), func(p *process) (*ticketv1.HoldResponse, error) {
			return p.HoldSeats(p.t.Context(), &ticketv1.HoldSeatsRequest{
				Items: []*ticketv1.HoldSeatsItem{{Caller: inside("ann"), EventId: "e", SeatIds: []string{"A-1-1"}}},
			})
		}},
		"general admission": {"GENERAL", &ticketv1.SectionSpec{Section: "A", Price: 5, Capacity: &general}, func(p *process) (*ticketv1.HoldResponse, error) {
			return p.HoldBest(p.t.Context(), &ticketv1.HoldBestRequest{
				Items: []*ticketv1.HoldBestItem{{Caller: inside("ann"), EventId: "e", Section: "A", Quantity: 2}},
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t)
			ended, _ := p.start("ticket.hold.after_commit@1=exit")
			p.putSale(c.seating, 300, c.section)
			_, err := c.hold(p)
			require.Error(t, err)
			p.dies(ended)
			require.Equal(t, 1, p.count(`SELECT count(*) FROM reservations`))

			p.start("")
			res, err := c.hold(p)
			require.NoError(t, err)
			r := res.GetResults()[0].GetReservation()
			require.NotNil(t, r, "%v", res.GetResults()[0].GetProblem())
			require.Equal(t, 1, p.count(`SELECT count(*) FROM reservations WHERE reservation_id = $1`, r.GetReservationId()))
			require.Equal(t, 1, p.count(`SELECT count(*) FROM reservations`))
			require.Equal(t, []string{"RESERVATION_CREATED"}, p.published(r.GetReservationId()))
		})
	}
}

// Wherever the process dies on the way, a payment ends in its tickets, once, and everybody hears of it.
func TestCrashWhileConfirming(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"ticket.confirm.before_commit", "ticket.confirm.after_commit", "outbox.before_publish", "outbox.after_publish",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t)
			_, stop := p.start("")
			p.putSale("ASSIGNED", 300, rows("A", 1, 10))
			r := p.mustHold("ann", "A-1-1", "A-1-2")
			require.Equal(t, []string{"RESERVATION_CREATED"}, p.published(r.GetReservationId()))
			stop()

			ended, _ := p.start(point + "@1=exit")
			p.pay(r, uuid.NewString())
			p.dies(ended)
			p.start("")
			p.becomes(r.GetReservationId(), "CONFIRMED")
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED"}, p.published(r.GetReservationId()))
			require.Equal(t, 2, p.count(`SELECT count(*) FROM tickets WHERE status = 'VALID'`))
			require.Equal(t, 2, p.count(`SELECT count(*) FROM seats WHERE status = 'SOLD'`))
			page, err := p.ListMyTickets(t.Context(), &ticketv1.ListMyTicketsRequest{Caller: &commonv1.Caller{UserId: "ann"}})
			require.NoError(t, err)
			require.Len(t, page.GetItems(), 2)
		})
	}
}
