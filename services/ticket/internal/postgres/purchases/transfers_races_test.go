package purchases_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// admit scans the code of a ticket at a door, and reports whether the door admits its holder.
func (s *shop) admit(id uuid.UUID) bool {
	s.t.Helper()
	tk := s.ticket(id)
	outcomes, err := s.Scans.Record(s.t.Context(), checkin.Batch{EventID: "e", Device: "gate", UserID: "staff", Reads: []checkin.ReadCode{{
		ScanID: uuid.New(), At: s.Clock.Now(),
		Code: &ticket.Code{TicketID: id, Serial: uint32(tk.Serial), EventID: "e", Place: tk.Seat.ID}, //nolint:gosec // counts from 1
	}}})
	require.NoError(s.t, err)
	return outcomes[0].Scan.Result == checkin.Admitted
}

// race runs acts at the same time and returns their errors.
func (s *shop) race(acts ...func() error) []error {
	s.t.Helper()
	return storetest.Concurrently(len(acts), func(i int) error { return acts[i]() })
}

// eachShopRace calls race repeatedly, each time for a new seat, and then checks the invariants.
func eachShopRace(t *testing.T, race func(t *testing.T, s *shop, seat string)) {
	t.Helper()
	t.Parallel()
	s := openShop(t, func(e *event.Event) {
		e.MaxPerUser, e.StartsAt, e.SalesCloseAt = 1000, storetest.Start.AddDate(1, 0, 0), storetest.Start.AddDate(0, 11, 0)
	})
	for i := range storetest.Races(t) {
		race(t, s, "A-"+strconv.Itoa(1+i/10)+"-"+strconv.Itoa(1+i%10))
	}
	s.RequireInvariants(t)
	s.RequireNoDeadlocks(t)
}

// If two users accept an offer at the same time, free or for money, one of them gets the ticket.
func TestTwoAcceptAtOnce(t *testing.T) {
	eachShopRace(t, func(t *testing.T, s *shop, seat string) {
		t.Helper()
		_, ids := s.buy("a"+seat, seat)
		for _, c := range []struct {
			price   int64
			refusal error
		}{{70, transfer.ErrTaken}, {0, transfer.ErrEnded}} {
			offered, claim := s.offer("a"+seat, ids[0], c.price)
			errs := s.race(
				func() error { _, err := s.accept("b", claim); return err },
				func() error { _, err := s.accept("c", claim); return err },
			)
			require.Equal(t, 1, storetest.CountSucceeded(t, errs, c.refusal))
			if c.price == 0 {
				return
			}
			_, err := s.Transfers.Cancel(t.Context(), "a"+seat, offered.ID)
			require.NoError(t, err)
		}
	})
}

// The seller cancels the offer while somebody accepts it, and while a buyer is about to be charged.
func TestCancelAgainstAccept(t *testing.T) {
	eachShopRace(t, func(t *testing.T, s *shop, seat string) {
		t.Helper()
		_, ids := s.buy("a"+seat, seat)
		offered, claim := s.offer("a"+seat, ids[0], 70)
		cancel := func() error { _, err := s.Transfers.Cancel(t.Context(), "a"+seat, offered.ID); return err }
		errs := s.race(cancel, func() error { _, err := s.accept("b", claim); return err })
		require.NoError(t, errs[0], "before a charge the seller may always cancel")
		require.Equal(t, transfer.Cancelled, s.status(offered.ID))
		if errs[1] != nil {
			require.ErrorIs(t, errs[1], transfer.ErrEnded)
		}

		offered, claim = s.offer("a"+seat, ids[0], 70)
		_, err := s.accept("b", claim)
		require.NoError(t, err)
		var e settlement.PaymentEvent
		errs = s.race(
			func() error { _, err := s.Transfers.Cancel(t.Context(), "a"+seat, offered.ID); return err },
			func() (err error) { e, err = s.charge(offered, "b"); return err },
		)
		require.NotEqual(t, errs[0] == nil, errs[1] == nil, "%v", errs)
		s.Settle(t, e) // even if it should not have been charged
		require.Equal(t, errs[1] == nil, s.status(offered.ID) == transfer.Completed)
		require.Equal(t, errs[1] != nil, s.Count(t, `SELECT count(*) FROM ended_payments WHERE payment_id = $1`, e.Payment.ID) == 1)
	})
}

// A buyer gives the offer up while the same buyer accepts it again: the buyer never keeps it.
func TestGiveUpAgainstAcceptAgain(t *testing.T) {
	eachShopRace(t, func(t *testing.T, s *shop, seat string) {
		t.Helper()
		_, ids := s.buy("a"+seat, seat)
		offered, claim := s.offer("a"+seat, ids[0], 70)
		_, err := s.accept("b", claim)
		require.NoError(t, err)
		giveUp := func() error { _, err := s.Transfers.Cancel(t.Context(), "b", offered.ID); return err }
		again := func() error { _, err := s.accept("b", claim); return err }
		for i, err := range s.race(giveUp, again, giveUp, again) {
			if err != nil {
				require.ErrorIs(t, err, map[bool]error{true: transfer.ErrNotFound, false: transfer.ErrGivenUp}[i%2 == 0])
			}
		}
		require.Equal(t, transfer.Open, s.status(offered.ID))
		_, err = s.Transfers.Cancel(t.Context(), "a"+seat, offered.ID)
		require.NoError(t, err)
	})
}

// The deadline passes while somebody accepts, and the time to pay ends while the payment is
// confirmed.
func TestDeadlineAgainstAccept(t *testing.T) {
	eachShopRace(t, func(t *testing.T, s *shop, seat string) {
		t.Helper()
		_, ids := s.buy("a"+seat, seat)
		deadline := s.Clock.Now().Add(time.Minute)
		offered, claim, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: ids[0], Seller: "a" + seat, Price: 70, Deadline: deadline}, nil)
		require.NoError(t, err)
		s.Clock.Set(deadline.Add(-10 * time.Microsecond)) // each reading advances the clock by 1 µs
		errs := s.race(
			func() error { return s.Transfers.ExpireDue(t.Context()) },
			func() error { _, err := s.accept("b", claim); return err },
		)
		require.NoError(t, errs[0])
		if errs[1] != nil {
			require.ErrorIs(t, errs[1], transfer.ErrEnded)
			return
		}
		e, err := s.charge(offered, "b")
		require.NoError(t, err)
		s.Clock.Advance(transfer.PayWithin)
		errs = s.race(
			func() error { return s.Transfers.ExpireDue(t.Context()) },
			func() error { return s.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{e}) },
		)
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		rejected := s.Count(t, `SELECT count(*) FROM ended_payments WHERE payment_id = $1`, e.Payment.ID) == 1
		require.Equal(t, rejected, s.status(offered.ID) != transfer.Completed)
	})
}

// A ticket is used or refunded, or its event ends, during its transfer. One of the two must fail.
func TestTransferAgainstTheTicketsEnd(t *testing.T) {
	t.Run("check-in", func(t *testing.T) {
		eachShopRace(t, func(t *testing.T, s *shop, seat string) {
			t.Helper()
			_, ids := s.buy("a"+seat, seat)
			offered, claim := s.offer("a"+seat, ids[0], 0)
			admitted := false
			errs := s.race(
				func() error { admitted = s.admit(ids[0]); return nil },
				func() error { _, err := s.accept("b", claim); return err },
			)
			require.NotEqual(t, admitted, errs[1] == nil, "one of both: %v", errs)
			require.Equal(t, errs[1] == nil, s.status(offered.ID) == transfer.Completed)
		})
	})
	t.Run("check-in against a charge", func(t *testing.T) {
		eachShopRace(t, func(t *testing.T, s *shop, seat string) {
			t.Helper()
			_, ids := s.buy("a"+seat, seat)
			offered, claim := s.offer("a"+seat, ids[0], 70)
			_, err := s.accept("b", claim)
			require.NoError(t, err)
			admitted := false
			errs := s.race(
				func() error { admitted = s.admit(ids[0]); return nil },
				func() error { _, err := s.charge(offered, "b"); return err },
			)
			require.NotEqual(t, admitted, errs[1] == nil, "one of both: %v", errs)
		})
	})
	t.Run("refund", func(t *testing.T) {
		eachShopRace(t, func(t *testing.T, s *shop, seat string) {
			t.Helper()
			p, ids := s.buy("a"+seat, seat)
			_, claim := s.offer("a"+seat, ids[0], 0)
			var c *refund.Claim
			errs := s.race(
				func() (err error) { c, err = s.Refunds.Begin(t.Context(), s.RefundRequest(p, refund.User)); return err },
				func() error { _, err := s.accept("b", claim); return err },
			)
			require.NoError(t, errs[0])
			require.NotEqual(t, c.Status == refund.Begun, errs[1] == nil, "one of both: %v", errs)
		})
	})
	t.Run("the end of the event", func(t *testing.T) {
		t.Parallel()
		for range storetest.Races(t) / 5 {
			s := openShop(t)
			_, ids := s.buy("a", "A-1-1")
			offered, claim := s.offer("a", ids[0], 70)
			_, err := s.accept("b", claim)
			require.NoError(t, err)
			e, err := s.charge(offered, "b")
			require.NoError(t, err)
			errs := s.race(
				func() error { return s.EventStore.Act(t.Context(), "e", event.Cancel, 0) },
				func() error { return s.Walker.Walk(t.Context()) },
				func() error { return s.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{e}) },
			)
			require.Equal(t, []error{nil, nil, nil}, errs)
			for range 3 { // whatever has happened, all tickets that are left are refunded
				s.Clock.Advance(time.Hour)
				require.NoError(t, s.Transfers.ExpireDue(t.Context()))
				require.NoError(t, s.Walker.Walk(t.Context()))
			}
			require.Zero(t, s.Count(t, `SELECT count(*) FROM tickets WHERE given < paid`))
			s.RequireInvariants(t)
		}
	})
}

// Three users transfer tickets to each other at the same time. None gets more than the limit.
func TestChainsAtOnce(t *testing.T) {
	t.Parallel()
	s := openShop(t, func(e *event.Event) { e.MaxPerUser = 3 })
	users := []string{"a", "b", "c"}
	for round := range max(1, storetest.Races(t)/20) {
		var acts []func() error
		for i, seller := range users {
			_, ids := s.buy(seller+strconv.Itoa(round), "A-"+strconv.Itoa(len(users)*round+1+i)+"-1", "A-"+strconv.Itoa(len(users)*round+1+i)+"-2")
			for j, id := range ids {
				_, claim := s.offer(seller+strconv.Itoa(round), id, 0)
				buyer := users[(i+1+j)%len(users)] + strconv.Itoa(round)
				acts = append(acts, func() error { _, err := s.accept(buyer, claim); return err })
			}
		}
		errs := s.race(slices.Concat(acts, acts)...) // each act runs twice
		require.NotEmpty(t, errs)
		s.RequireInvariants(t)
	}
	s.RequireNoDeadlocks(t)
}
