package voids_test

import (
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/comp"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
	"urr.guru/services/ticket/internal/void"
)

// race voids an order while something else happens to its ticket, repeatedly, each time with
// another buyer. other gets the ticket, and returns what happens to it; check gets the errors of
// both.
func race(
	t *testing.T, other func(s *shop, user string, p purchase.Payment, id uuid.UUID) func() error,
	check func(s *shop, p purchase.Payment, id uuid.UUID, voided, other error),
) {
	t.Helper()
	t.Parallel()
	s := open(t)
	for i := range min(20, storetest.Races(t)) {
		user := string(rune('a' + i))
		r, p, ids := s.buy(user, "A-"+strconv.Itoa(1+i/10)+"-"+strconv.Itoa(1+i%10))
		acts := []func() error{
			func() error { _, err := s.void(void.Request{ReservationID: r.ID}); return err },
			other(s, user, p, ids[0]),
		}
		errs := storetest.Concurrently(2, func(i int) error { return acts[i]() })
		check(s, p, ids[0], errs[0], errs[1])
		s.RequireInvariants(t)
	}
	s.RequireNoDeadlocks(t)
}

// A door admits the bearer before the void or not at all. The ticket is void after both.
func TestVoidAgainstACheckIn(t *testing.T) {
	var results []checkin.Result
	race(t, func(s *shop, _ string, _ purchase.Payment, id uuid.UUID) func() error {
		code := &ticket.Code{TicketID: id, Serial: 1, EventID: "e", Place: s.find(id).Seat.ID}
		return func() error {
			outcomes, err := s.Scans.Record(t.Context(), checkin.Batch{
				EventID: "e", Device: "gate", UserID: "staff", Reads: []checkin.ReadCode{{ScanID: uuid.New(), At: s.Clock.Now(), Code: code}},
			})
			if err == nil {
				results = append(results, outcomes[0].Scan.Result)
			}
			return err
		}
	}, func(s *shop, _ purchase.Payment, id uuid.UUID, voided, other error) {
		require.NoError(t, voided)
		require.NoError(t, other)
		require.Contains(t, []checkin.Result{checkin.Admitted, "VOIDED"}, results[len(results)-1])
		require.Equal(t, ticket.Voided, s.find(id).Status)
	})
}

// The void of an order ends the ticket of whoever has accepted the offer meanwhile.
func TestVoidAgainstAnAccept(t *testing.T) {
	race(t, func(s *shop, user string, _ purchase.Payment, id uuid.UUID) func() error {
		_, claim, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: id, Seller: user}, nil)
		require.NoError(t, err)
		return func() error {
			_, err := s.Transfers.Accept(t.Context(), "taker-"+user, purchase.Contact{}, claim, uuid.Nil)
			return err
		}
	}, func(s *shop, _ purchase.Payment, id uuid.UUID, voided, other error) {
		require.NoError(t, voided)
		if other != nil {
			require.ErrorIs(t, other, transfer.ErrEnded)
		}
		require.Zero(t, s.Count(t, `SELECT count(*) FROM tickets WHERE (ticket_id = $1 OR prev = $1) AND status = 'VALID'`, id))
	})
}

// Either the buyer's payment or the void comes first; the other one is refused.
func TestVoidAgainstTheBuyersCharge(t *testing.T) {
	race(t, func(s *shop, user string, _ purchase.Payment, id uuid.UUID) func() error {
		offered, claim, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: id, Seller: user, Price: 70}, nil)
		require.NoError(t, err)
		_, err = s.Transfers.Accept(t.Context(), "taker-"+user, purchase.Contact{}, claim, uuid.Nil)
		require.NoError(t, err)
		return func() error {
			_, err := s.Transfers.BeginPayment(t.Context(), "taker-"+user, offered.ID, uuid.New(), purchase.PayTime{})
			return err
		}
	}, func(_ *shop, _ purchase.Payment, _ uuid.UUID, voided, other error) {
		require.NotEqual(t, voided == nil, other == nil, "%v, %v", voided, other)
		if voided != nil {
			requireNotVoidable(t, voided, "TRANSFERRING")
		}
	})
}

// A refund before the void ends the ticket; after it, it gives the money of the void ticket back.
func TestVoidAgainstARefund(t *testing.T) {
	claims := make(map[uuid.UUID]*refund.Claim)
	race(t, func(s *shop, _ string, p purchase.Payment, _ uuid.UUID) func() error {
		return func() (err error) {
			claims[p.ID], err = s.Refunds.Begin(t.Context(), s.RefundRequest(p, refund.Operator))
			return err
		}
	}, func(s *shop, p purchase.Payment, id uuid.UUID, voided, other error) {
		require.NoError(t, other)
		c := claims[p.ID]
		require.Equal(t, []refund.Item{{TicketID: id, Amount: 75}}, c.Items)
		want := ticket.Voided
		if voided != nil {
			requireNotVoidable(t, voided, "REFUNDING")
			want = ticket.Refunding
		}
		require.Equal(t, want, s.find(id).Status)
		s.Settle(t, storetest.MadeRefund(c, p))
		require.Zero(t, s.find(id).Owed())
	})
}

// A comp's link is used while the comp is voided: whoever has claimed it has void tickets.
func TestVoidAgainstAClaim(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range min(20, storetest.Races(t)) {
		_, err := s.Events.PutHouse(t.Context(), "e", event.HouseChange{Standing: map[string]int64{"F": 2}})
		require.NoError(t, err)
		made, err := s.Comps.Make(t.Context(), comp.Request{EventID: "e", Name: "Press", Section: "F", Quantity: 2})
		require.NoError(t, err)
		acts := []func() error{
			func() error { _, err := s.void(void.Request{ReservationID: made.ID}); return err },
			func() error {
				_, err := s.Comps.Claim(t.Context(), made.Claim, "guest-"+string(rune('a'+i)), purchase.Contact{})
				return err
			},
		}
		errs := storetest.Concurrently(2, func(i int) error { return acts[i]() })
		require.NoError(t, errs[0])
		if errs[1] != nil {
			require.ErrorIs(t, errs[1], ticket.ErrNotFound)
		}
		require.Zero(t, s.Count(t, `SELECT count(*) FROM tickets WHERE status <> 'VOIDED'`))
		s.RequireInvariants(t)
	}
	s.RequireNoDeadlocks(t)
}

// Two operators void the same ticket: it is voided once.
func TestVoidTwiceAtOnce(t *testing.T) {
	race(t, func(s *shop, _ string, _ purchase.Payment, id uuid.UUID) func() error {
		return func() error { _, err := s.void(void.Request{TicketID: id}); return err }
	}, func(_ *shop, _ purchase.Payment, _ uuid.UUID, voided, other error) {
		require.NoError(t, voided)
		require.NoError(t, other)
	})
}
