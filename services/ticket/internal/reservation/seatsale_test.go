package reservation_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// seatSale returns a sale of the seats A-1-1 to A-1-6, all of which were read. A-1-4 is sold, A-1-5
// and A-1-6 belong to the expired hold. The seats of the list locked are locked.
func seatSale(waits bool, expired uuid.UUID, locked ...string) *reservation.SeatSale {
	s := reservation.NewSeatSale(waits)
	s.LockedSale = reservation.LockedSale{
		EventID: "e", Seating: event.Assigned, Currency: "KRW", HoldFor: time.Minute, Now: noon, Records: map[string]event.Record{"old": {Used: 3}},
		Sale: event.Sale{State: event.Open, OpenAt: noon.Add(-1), CloseAt: noon.Add(time.Hour), MaxPerUser: 4},
	}
	state := map[string]reservation.LockedSeat{
		"A-1-1": {Free: true}, "A-1-2": {Free: true}, "A-1-3": {Free: true}, "A-1-4": {}, "A-1-5": {HeldBy: expired}, "A-1-6": {HeldBy: expired},
	}
	for id, seat := range state {
		s.Unlocked[id] = reservation.UnlockedSeat{Price: 70, Takeable: id != "A-1-4", HeldBy: seat.HeldBy}
	}
	for _, id := range locked {
		seat := state[id]
		s.Locked[id] = &seat
	}
	s.Expired[expired] = []string{"A-1-5", "A-1-6"}
	return &s
}

func seatsRequest(user string, ids ...string) reservation.SeatsRequest {
	return reservation.SeatsRequest{EventID: "e", UserID: user, SeatIDs: ids}
}

func TestSeatsAreRefusedBeforeTheyAreLocked(t *testing.T) {
	t.Parallel()
	s := seatSale(false, uuid.New())
	s.BusyUsers["busy"] = true
	require.ErrorIs(t, s.CheckUser(seatsRequest("busy", "A-1-1")), reservation.ErrUndecided)
	require.ErrorIs(t, s.CheckUser(seatsRequest("old", "A-1-1", "A-1-2")), reservation.ErrLimitExceeded)
	require.NoError(t, s.CheckUser(seatsRequest("old", "A-1-1")))
	require.NoError(t, s.CheckSeats(seatsRequest("u", "A-1-1", "A-1-5")))
	err := s.CheckSeats(seatsRequest("u", "A-1-4", "A-1-9", "A-1-8"))
	require.ErrorIs(t, err, event.ErrSeatNotFound)
	require.Equal(t, "A-1-9,A-1-8", errs.From(err).Metadata["seatIds"])
	require.ErrorIs(t, s.CheckSeats(seatsRequest("u", "A-1-1", "A-1-4")), reservation.ErrSeatTaken)
	s.Now = noon.Add(time.Hour)
	require.ErrorIs(t, s.CheckUser(seatsRequest("u", "A-1-1")), event.ErrSaleNotOpen)
	require.ErrorIs(t, s.CheckSeating(event.General), event.ErrSeatingMismatch)
}

func TestSeatsAreAllottedInOrder(t *testing.T) {
	t.Parallel()
	expired := uuid.New()
	s := seatSale(false, expired, "A-1-1", "A-1-2", "A-1-4", "A-1-5", "A-1-6")
	first, err := s.Allot(seatsRequest("u", "A-1-2", "A-1-1"))
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-1", "A-1-2"}, first.SeatIDs())
	require.Equal(t, []any{int64(140), "KRW", noon.Add(time.Minute)}, []any{first.Amount, first.Currency, first.Until})
	require.Equal(t, first.ID, s.Locked["A-1-1"].Owner)
	for _, c := range []struct {
		req  reservation.SeatsRequest
		want error
	}{
		{seatsRequest("v", "A-1-1"), reservation.ErrSeatTaken},
		{seatsRequest("u", "A-1-3", "A-1-5", "A-1-6"), reservation.ErrLimitExceeded},
		{seatsRequest("v", "A-1-4"), reservation.ErrSeatTaken},
		{seatsRequest("v", "A-1-3"), reservation.ErrUndecided}, // another transaction has locked it
	} {
		_, err := s.Allot(c.req)
		require.ErrorIs(t, err, c.want, c.req.SeatIDs)
	}
	require.Empty(t, s.TakenOver, "whoever was refused took nothing")
	_, err = s.Allot(seatsRequest("v", "A-1-5"))
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{expired}, s.TakenOver)
	_, err = s.Allot(seatsRequest("w", "A-1-6"))
	require.NoError(t, err, "the end of the hold has made it free")
}

// An expired hold is taken over only when all of its seats are locked.
func TestSeatsOfAHoldThatIsNotLockedAsAWhole(t *testing.T) {
	t.Parallel()
	skipping := seatsRequest("u", "A-1-5")
	skipping.SkipLocked = true
	for _, c := range []struct {
		waits bool
		req   reservation.SeatsRequest
		want  error
	}{
		{false, seatsRequest("u", "A-1-5"), reservation.ErrUndecided},
		{false, skipping, reservation.ErrSeatTaken},
		{true, seatsRequest("u", "A-1-5"), reservation.ErrSeatTaken},
		{true, seatsRequest("u", "A-1-1"), event.ErrSeatNotFound}, // deleted since it was read
	} {
		_, err := seatSale(c.waits, uuid.New(), "A-1-5").Allot(c.req)
		require.ErrorIs(t, err, c.want)
	}
}
