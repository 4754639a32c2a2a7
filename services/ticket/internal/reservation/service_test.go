package reservation_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/event/eventtest"
	"urr.guru/services/ticket/internal/reservation"
)

// hall is an event with one section of four seats. It records how often its seats are counted.
type hall struct {
	reservation.Holder

	taken  []int32
	counts int
	// broken is a seat whose hold fails; requests counts the requests for it.
	broken   string
	requests int
}

func (h *hall) event() event.Event {
	return event.Event{
		ID: "e", State: event.Open, Spec: event.Spec{
			Seating: event.Assigned, SalesOpenAt: noon.Add(-time.Hour), SalesCloseAt: noon.Add(time.Hour), MaxPerUser: 4,
			Sections: []event.Section{{Name: "A", Capacity: 4, Rows: 1, SeatsPerRow: 4}},
		},
	}
}

func (h *hall) Event(context.Context, string) (event.Event, error) { return h.event(), nil }

func (h *hall) Snapshot(context.Context, string) (event.Snapshot, error) {
	return eventtest.SnapshotWithSold(h.event(), noon, h.taken...), nil
}

func (h *hall) Replay(context.Context, *idempotency.Key) (*reservation.Reservation, error) {
	return nil, nil //nolint:nilnil // nothing was made
}

func (h *hall) HoldSeats(_ context.Context, req reservation.SeatsRequest) (*reservation.Reservation, error) {
	if !slices.Contains(req.SeatIDs, h.broken) {
		return &reservation.Reservation{}, nil
	}
	h.requests++
	return nil, errors.New("broken")
}

func (h *hall) CountFree(context.Context, string, string) (int64, error) {
	h.counts++
	return 4 - int64(len(h.taken)), nil
}

// Most requests come after a section is sold out, so not each of them may count all of its seats.
func TestSoldOutSectionIsNotCountedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		taken  []int32
		want   error
		counts int
	}{
		"none is free":        {[]int32{0, 1, 2, 3}, reservation.ErrSoldOut, 0},
		"one is free":         {[]int32{0, 1, 2}, reservation.ErrSoldOut, 0},
		"two, but not a pair": {[]int32{0, 2}, reservation.ErrNotAdjacent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hall{taken: c.taken}
			_, err := reservation.NewService(h, nil, h, nil, extension).HoldBest(t.Context(), reservation.BestRequest{
				EventID: "e", UserID: "u", Section: "A", Quantity: 2, Adjacent: true,
			})
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.counts, h.counts)
		})
	}
}

// The next request does not get the seats of a hold that failed with an internal error.
func TestSeatsOfAFailureAreNotPickedAgain(t *testing.T) {
	t.Parallel()
	h := &hall{broken: "A-1-2"} // the best seat
	svc := reservation.NewService(h, nil, h, nil, extension)
	req := reservation.BestRequest{EventID: "e", UserID: "u", Section: "A", Quantity: 1}
	_, err := svc.HoldBest(t.Context(), req)
	require.Error(t, err)
	_, err = svc.HoldBest(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, 1, h.requests)
}
