package ticket_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/ticket"
)

var statuses = []ticket.Status{
	ticket.Valid, ticket.Used, ticket.Transferring, ticket.Transferred, ticket.Refunding, ticket.Refunded,
}

// Whatever a ticket's status is, only the refund that has claimed it can end it or undo the claim.
func TestRefundOfATicketInEveryStatus(t *testing.T) {
	t.Parallel()
	claim, another := uuid.New(), uuid.New()
	for _, status := range statuses {
		hasClaim := status == ticket.Refunding || status == ticket.Refunded
		for _, refund := range []uuid.UUID{claim, another} {
			before := ticket.Ticket{Status: status, Paid: 75, GivenBack: 75}
			if hasClaim {
				before.RefundID = claim
			}
			claimed := status == ticket.Refunding && refund == claim

			t1 := before
			err := t1.Unclaim(refund, 75)
			if claimed {
				require.NoError(t, err)
				require.Equal(t, ticket.Ticket{Status: ticket.Valid, Paid: 75}, t1)
			} else {
				require.ErrorIs(t, err, ticket.ErrNotClaimed, status)
				require.Equal(t, before, t1)
			}

			t2 := before
			ended, err := t2.EndRefund(refund)
			require.Equal(t, claimed, ended, status)
			if claimed {
				before.Status = ticket.Refunded
			} else if status != ticket.Transferred && (status != ticket.Refunded || refund == claim) { // these have ended before
				require.ErrorIs(t, err, ticket.ErrNotClaimed, status)
			}
			require.Equal(t, before, t2)
		}
	}
	valid := ticket.Ticket{Status: ticket.Valid, Paid: 75}
	valid.Claim(claim, 70)
	require.Equal(t, ticket.Ticket{Status: ticket.Refunding, RefundID: claim, Paid: 75, GivenBack: 70}, valid)
}

func TestFeesAreGivenBackLast(t *testing.T) {
	t.Parallel()
	for given, fee := range map[int64]int64{0: 0, 70: 0, 100: 0, 105: 5, 110: 10} {
		require.Equal(t, fee, (&ticket.Ticket{Paid: 110, Fee: 10, GivenBack: given}).FeeOf(given), given)
	}
	for amount, fee := range map[int64]int64{2: 2, 10: 10, 30: 10, 110: 10} { // of several refunds the last
		require.Equal(t, fee, (&ticket.Ticket{Paid: 110, Fee: 10, GivenBack: 110}).FeeOf(amount), amount)
	}
	require.EqualValues(t, 2, (&ticket.Ticket{Paid: 110, Fee: 10, GivenBack: 105}).FeeOf(2))
}
