package holds_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// dates returns two events of a series, in which users may have 3 places, and another event.
func dates() map[string]event.Event {
	specs := map[string]event.Event{
		"friday":   storetest.Spec("friday", event.Assigned, storetest.Rows("A", 70, 2, 40)),
		"saturday": storetest.Spec("saturday", event.General, storetest.Admissions("A", 70, 80)),
		"other":    storetest.Spec("other", event.General, storetest.Admissions("A", 70, 80)),
	}
	for id, spec := range specs {
		if id != "other" {
			spec.SeriesID, spec.MaxPerUserInSeries = new("show"), new(int32(3))
			specs[id] = spec
		}
	}
	return specs
}

func holdAt(ctx context.Context, svc *storetest.Service, id, user string, n int) (*reservation.Reservation, error) {
	return svc.Reservations.HoldBest(ctx, reservation.BestRequest{EventID: id, UserID: user, SlotID: "s", Section: "A", Quantity: n})
}

func TestLimitOfASeries(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	for _, spec := range dates() {
		svc.Put(t, spec)
	}
	held := make([]*reservation.Reservation, 2)
	for i, id := range []string{"friday", "saturday"} {
		r, err := holdAt(t.Context(), svc, id, "u", i+1)
		require.NoError(t, err)
		held[i] = r
	}
	for _, id := range []string{"friday", "saturday"} {
		_, err := holdAt(t.Context(), svc, id, "u", 1)
		require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	}
	_, err := holdAt(t.Context(), svc, "other", "u", 4)
	require.NoError(t, err, "it is not of the series")
	_, err = holdAt(t.Context(), svc, "friday", "v", 3)
	require.NoError(t, err)

	p := storetest.Payment(held[1])
	svc.Confirm(t, held[1], p)
	svc.Refund(t, p, refund.User)
	_, err = holdAt(t.Context(), svc, "friday", "u", 2)
	require.NoError(t, err)
	svc.RequireInvariants(t)
}

// Two replicas that have not read the series yet enforce its limit while payments are confirmed.
func TestLimitOfASeriesAtOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	for _, spec := range dates() {
		svc.Put(t, spec)
	}
	for range 10 {
		replicas := []*storetest.Service{svc.Replica(t), svc.Replica(t)}
		user := "u" + uuid.NewString()[:8]
		results := storetest.Concurrently(6, func(i int) error {
			r, err := holdAt(t.Context(), replicas[i/2%2], []string{"friday", "saturday"}[i%2], user, 1)
			if err == nil {
				svc.Confirm(t, r, storetest.Payment(r))
			}
			return err
		})
		require.Equal(t, 3, storetest.CountSucceeded(t, results, reservation.ErrLimitExceeded))
		svc.RequireInvariants(t)
	}
	svc.RequireNoDeadlocks(t)
}

// Once the sale has opened, the series of an event cannot be changed.
func TestSeriesOfAnOpenSale(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := dates()["friday"]
	spec.SalesOpenAt = storetest.Start.Add(time.Hour)
	svc.Put(t, spec)
	spec.SeriesID = new("tour")
	svc.Put(t, spec)
	svc.Clock.Set(spec.SalesOpenAt)
	_, err := holdAt(t.Context(), svc, "friday", "u", 1)
	require.NoError(t, err)
	spec.SeriesID = new("show")
	_, err = svc.Events.Put(t.Context(), spec.ID, spec.Spec, nil)
	require.ErrorIs(t, err, event.ErrLocked)
	spec.SeriesID, spec.MaxPerUserInSeries = nil, new(int32(1))
	svc.Put(t, spec)
	_, err = holdAt(t.Context(), svc, "friday", "u", 1)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	other := dates()["other"]
	other.MaxPerUserInSeries = new(int32(2))
	_, err = svc.Events.Put(t.Context(), other.ID, other.Spec, nil)
	require.ErrorIs(t, err, event.ErrInvalid)
}
