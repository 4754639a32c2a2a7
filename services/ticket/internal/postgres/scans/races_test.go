package scans_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
)

const races = 20

// If several doors read a code at once, only one admits its bearer.
func TestCheckInAtOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	b := h.buy(t, "u", "A-1-1")
	for range races {
		admitted := make([]*checkin.Outcome, 3)
		results := storetest.Concurrently(len(admitted), func(i int) (err error) {
			admitted[i], err = h.checkIn(t.Context(), b.code)
			return err
		})
		require.Equal(t, 1, storetest.CountSucceeded(t, results, checkin.ErrAlreadyUsed))
		for i, err := range results {
			if err == nil {
				_, err = h.doors.Undo(t.Context(), "e", admitted[i].Scan.ID)
				require.NoError(t, err)
			}
		}
		h.RequireInvariants(t)
	}
	h.RequireNoDeadlocks(t)
}

// A ticket is admitted or refunded, never both.
func TestCheckInAgainstRefund(t *testing.T) {
	t.Parallel()
	h := open(t)
	for range races {
		b := h.buy(t, uuid.NewString(), "A-1-1")
		var c *refund.Claim
		var o *checkin.Outcome
		results := storetest.Concurrently(2, func(i int) (err error) {
			if i == 0 {
				c, err = h.Refunds.Begin(t.Context(), h.RefundRequest(b.payment, refund.User))
				return err
			}
			o, err = h.checkIn(t.Context(), b.code)
			return err
		})
		require.NoError(t, results[0])
		if c.Status == refund.Refused {
			require.NoError(t, results[1])
			require.Equal(t, []refund.ExcludedTicket{{TicketID: b.id, Reason: string(ticket.Used)}}, c.Excluded)
			require.Equal(t, ticket.Used, h.find(t, b.id).Status)
			_, err := h.doors.Undo(t.Context(), "e", o.Scan.ID)
			require.NoError(t, err)
			c = h.BeginRefund(t, h.RefundRequest(b.payment, refund.User))
		} else {
			requireWhy(t, checkin.Result(ticket.Refunding), results[1])
		}
		h.Settle(t, storetest.MadeRefund(c, b.payment))
		require.Equal(t, []checkin.Result{checkin.Result(ticket.Refunded)}, h.upload(t, 1, h.offline(b.code)), "a conflict that somebody sees")
		h.RequireInvariants(t)
	}
	require.EqualValues(t, races, h.counts(t).Conflicts)
	h.RequireNoDeadlocks(t)
}

// Concurrent uploads of the same scans record each scan once, even one without a ticket to lock.
func TestTheSameUploadAtOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	a, b := h.buy(t, "u", "A-1-1"), h.buy(t, "v", "A-1-2")
	for range races {
		scans := []checkin.Scanned{h.offline(b.code), h.offline("forged"), h.offline(a.code)}
		door := gate
		door.Epoch = 1
		for _, err := range storetest.Concurrently(3, func(i int) error {
			_, err := h.doors.Upload(t.Context(), door, []checkin.Scanned{scans[i], scans[(i+1)%3], scans[(i+2)%3]})
			return err
		}) {
			require.NoError(t, err)
		}
		require.Equal(t, []checkin.Result{checkin.Admitted, checkin.UnknownCode, checkin.Admitted}, h.upload(t, 1, scans...))
		for _, i := range []int{0, 2} {
			_, err := h.doors.Undo(t.Context(), "e", scans[i].ScanID)
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, races, h.counts(t).Conflicts)
	h.RequireInvariants(t)
	h.RequireNoDeadlocks(t)
}
