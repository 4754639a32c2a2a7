package purchases_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
)

const races = 20

// Of several concurrent refunds of a ticket, only one claims it.
func TestRefundsAtOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	sell(t, svc, "A-1-9")
	causes := []refund.Cause{refund.User, refund.Operator, refund.ByHand}
	for range races {
		_, p := buy(t, svc, "u", "A-1-1")
		claims := make([]*refund.Claim, len(causes))
		for _, err := range storetest.Concurrently(len(causes), func(i int) (err error) {
			claims[i], err = svc.Refunds.Begin(t.Context(), svc.RefundRequest(p, causes[i]))
			return err
		}) {
			require.NoError(t, err)
		}
		claimed := 0
		for _, c := range claims {
			claimed += len(c.Items)
			if c.Status == refund.Begun {
				svc.Settle(t, storetest.MadeRefund(c, p))
			}
		}
		require.Equal(t, 1, claimed)
		svc.RequireInvariants(t)
	}
	svc.RequireNoDeadlocks(t)
}

// The payment service reports that a refund was made, or that the provider refused it for good. The
// first report counts. A later report of the opposite changes nothing.
func TestTheEndOfARefundAtOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	sell(t, svc, "A-1-9")
	for range races {
		_, p := buy(t, svc, "u", "A-1-1")
		c := svc.BeginRefund(t, svc.RefundRequest(p, refund.Operator))
		refundMade := []settlement.PaymentEvent{storetest.MadeRefund(c, p)}
		acts := []func() error{
			func() error { return svc.Settlement.Settle(t.Context(), storetest.Group, refundMade) },
			func() error { return svc.Refunds.Abort(t.Context(), c.ID) },
		}
		errs := storetest.Concurrently(2, func(i int) error { return acts[i]() })
		if errs[0] == nil {
			require.ErrorIs(t, errs[1], postgres.ErrContradiction)
		} else {
			require.NoError(t, errs[1])
			require.ErrorIs(t, errs[0], settlement.ErrUnclaimed)
			svc.Refund(t, p, refund.Operator)
		}
		svc.RequireInvariants(t)
	}
	svc.RequireNoDeadlocks(t)
}

// Concurrent requests for the same refund get the same answer.
func TestTheSameRefundAtOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1")
	for range races {
		req := svc.RefundRequest(p, refund.User)
		claims := make([]*refund.Claim, 4)
		for _, err := range storetest.Concurrently(len(claims), func(i int) (err error) {
			claims[i], err = svc.Refunds.Begin(t.Context(), req)
			return err
		}) {
			require.NoError(t, err)
		}
		for _, c := range claims {
			require.Equal(t, refund.Begun, c.Status)
			require.Equal(t, claims[0].Items, c.Items)
		}
		require.NoError(t, svc.Refunds.Abort(t.Context(), req.ID))
	}
	svc.RequireInvariants(t)
	svc.RequireNoDeadlocks(t)
}

// A payment is confirmed while all of it is refunded by hand. Then its ticket ends, or the payment
// buys nothing.
func TestRefundByHandDuringTheConfirmation(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	sell(t, svc, "A-1-9")
	for range races {
		user := uuid.NewString()
		r := svc.MustHoldSeats(t, user, "A-1-1")
		p := storetest.Payment(r)
		confirmed := settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: p}
		svc.Begun(t, confirmed)
		var c *refund.Claim
		acts := []func() error{
			func() error {
				return svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{confirmed})
			},
			func() (err error) {
				c, err = svc.Refunds.Begin(t.Context(), svc.RefundRequest(p, refund.ByHand))
				return err
			},
		}
		for _, err := range storetest.Concurrently(2, func(i int) error { return acts[i]() }) {
			require.NoError(t, err)
		}
		svc.Settle(t, storetest.MadeRefund(c, p))
		svc.RequireInvariants(t)
		found := svc.Find(t, r.ID)
		if len(c.Items) == 1 {
			require.Equal(t, reservation.Refunded, found.Status)
			continue
		}
		require.Equal(t, reservation.Held, found.Status)
		require.Empty(t, svc.TicketIDs(t, p))
		require.NoError(t, svc.Reservations.Cancel(t.Context(), user, "", r.ID))
	}
	svc.RequireNoDeadlocks(t)
}

// A ticket that is used at the door at the same time is not refunded.
func TestRefundDuringTheCheckIn(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	_, p := sell(t, svc, "A-1-1")
	id := svc.TicketIDs(t, p)[0]
	for range races {
		var used int64
		var c *refund.Claim
		acts := []func() error{
			func() error {
				tag, err := svc.Pool.Exec(t.Context(), `UPDATE tickets SET status = 'USED' WHERE ticket_id = $1 AND status = 'VALID'`, id)
				used = tag.RowsAffected()
				return err
			},
			func() (err error) {
				c, err = svc.Refunds.Begin(t.Context(), svc.RefundRequest(p, refund.User))
				return err
			},
		}
		for _, err := range storetest.Concurrently(2, func(i int) error { return acts[i]() }) {
			require.NoError(t, err)
		}
		if used == 1 {
			require.Equal(t, []refund.ExcludedTicket{{TicketID: id, Reason: "USED"}}, c.Excluded)
			require.Equal(t, ticket.Used, find(t, svc, id).Status)
			_, err := svc.Pool.Exec(t.Context(), `UPDATE tickets SET status = 'VALID'`)
			require.NoError(t, err)
			continue
		}
		require.Equal(t, refund.Begun, c.Status)
		require.NoError(t, svc.Refunds.Abort(t.Context(), c.ID))
	}
	svc.RequireInvariants(t)
}
