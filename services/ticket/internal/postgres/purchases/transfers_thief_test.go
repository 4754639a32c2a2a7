package purchases_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/transfer"
)

// The limit of a presale binds whichever way places come, and who may not buy in it gets none from
// others either. What a user may still have is what the next request gets.
func TestPresalesBindTransfersToo(t *testing.T) {
	t.Parallel()
	s := openShop(t, func(e *event.Event) {
		e.SalesOpenAt, e.MaxPerUser = storetest.Start.Add(time.Hour), 4
		e.Presale = &event.Presale{OpensAt: storetest.Start.Add(-time.Hour), MaxPerUser: 1, Ways: []event.Way{{Claim: "fan", Values: []string{"yes"}}}}
	})
	const fan = "fan=yes"
	buy := func(user string) string {
		t.Helper()
		r, err := s.Reservations.HoldBest(t.Context(), reservation.BestRequest{
			EventID: "e", UserID: user, SlotID: "s", Section: "A", Quantity: 1, PresaleRight: reservation.PresaleRight{Claims: []string{fan}},
		})
		require.NoError(t, err)
		p := storetest.Payment(r)
		s.Confirm(t, r, p)
		_, claim := s.offer(user, s.TicketIDs(t, p)[0], 0)
		return claim
	}
	accept := func(user, claim string, claims ...string) error {
		_, err := s.Transfers.Accept(t.Context(), user, purchase.Contact{}, claim, uuid.Nil, claims...)
		return err
	}
	left := func(user string) int64 {
		t.Helper()
		a, err := s.Entitlements.AllowanceOf(t.Context(), "e", entitlement.User{ID: user})
		require.NoError(t, err)
		return a.Left
	}
	first, second, third := buy("a"), buy("b"), buy("c")
	for _, state := range []event.State{event.Paused, event.Open} {
		_, err := s.Pool.Exec(t.Context(), `UPDATE events SET state = $1`, state)
		require.NoError(t, err)
		require.ErrorIs(t, accept("stranger", first), event.ErrNotEntitled, state)
	}
	require.EqualValues(t, 1, left("u"))
	require.NoError(t, accept("u", first, fan))
	require.Zero(t, left("u"))
	require.ErrorIs(t, accept("u", second, fan), event.ErrLimitExceeded)
	s.Clock.Set(storetest.Start.Add(time.Hour))
	require.EqualValues(t, 3, left("u"))
	require.NoError(t, accept("u", second, fan))
	require.NoError(t, accept("stranger", third), "the presale is over")
}

// A user who is blocked does not get what was held or accepted before. Only who may have been charged
// already goes on.
func TestBlockedUsersBuyNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	_, ids := s.buy("seller", "A-9-1", "A-9-2")
	held, charging := s.MustHoldSeats(t, "bad", "A-1-1"), s.MustHoldSeats(t, "bad", "A-1-2")
	other := s.MustHoldSeats(t, "good", "A-1-3")
	_, err := s.Reservations.BeginPayment(t.Context(), "bad", charging.ID, uuid.New(), purchase.PayTime{})
	require.NoError(t, err)
	offered, claim := s.offer("seller", ids[0], 70)
	_, err = s.accept("bad", claim)
	require.NoError(t, err)
	for range 2 {
		_, err = s.Events.ChangeLine(t.Context(), "e", event.LineChange{BlockUser: "bad", Act: 7})
		require.NoError(t, err)
	}
	require.Equal(t, reservation.Cancelled, s.Find(t, held.ID).Status)
	require.Equal(t, reservation.ReasonBlocked, s.Find(t, held.ID).Reason)
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CANCELLED"}, s.EventTypes(t, held.ID))
	require.Equal(t, reservation.Paying, s.Find(t, charging.ID).Status, "the provider may have been called")
	require.Equal(t, reservation.Held, s.Find(t, other.ID).Status)
	require.Equal(t, transfer.Open, s.status(offered.ID), "others may buy it")
	s.RequireInvariants(t)

	// What is held or accepted while the block is being stored is not paid either.
	late := s.MustHoldSeats(t, "bad", "A-1-4")
	_, err = s.Reservations.BeginPayment(t.Context(), "bad", late.ID, uuid.New(), purchase.PayTime{})
	require.ErrorIs(t, err, transfer.ErrBlocked)
	_, err = s.accept("bad", claim)
	require.ErrorIs(t, err, transfer.ErrBlocked)
	_, err = s.Events.ChangeLine(t.Context(), "e", event.LineChange{UnblockUser: "bad", Act: 8})
	require.NoError(t, err)
	offered, claim = s.offer("seller", ids[1], 70)
	shown, err := s.accept("bad", claim)
	require.NoError(t, err)
	_, err = s.Pool.Exec(t.Context(), `UPDATE line_settings SET blocked_users = '{bad}' WHERE event_id = 'e'`)
	require.NoError(t, err)
	_, err = s.charge(shown, "bad")
	require.ErrorIs(t, err, transfer.ErrBlocked)
	require.Equal(t, transfer.Awaiting, s.status(offered.ID))

	paid := storetest.Payment(charging)
	paid.ID = s.Find(t, charging.ID).PaymentID
	s.Settle(t, settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: charging.ID, Payment: paid})
	require.Equal(t, reservation.Confirmed, s.Find(t, charging.ID).Status)
	s.RequireInvariants(t)
}
