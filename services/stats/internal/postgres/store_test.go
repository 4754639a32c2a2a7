package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/postgres"
)

const group = "test-group"

var at = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func setup(t *testing.T) *postgres.Store {
	t.Helper()
	return postgres.NewStore(postgrestest.New(t, inbox.Migrations, postgres.Migrations))
}

// confirmations is a batch in which each id confirms a reservation of two seats and its payment.
func confirmations(next int64, ids ...string) figures.Batch {
	return figures.Batch{
		Topic: "reservation-events", Partition: 0, Next: next, EventIDs: ids,
		Delta: func(fresh map[string]bool) (figures.Delta, error) {
			var d figures.Delta
			for range fresh {
				d.AddReservation(figures.Reservation{Type: figures.ReservationConfirmed, EventID: "e", Quantity: 2, At: at})
				d.AddPayment(figures.Payment{Type: figures.PaymentConfirmed, EventID: "e", Currency: "KRW", Amount: 110000, At: at})
			}
			return d, nil
		},
	}
}

func TestApplyCountsEachEventOnce(t *testing.T) {
	t.Parallel()
	store, ctx := setup(t), t.Context()
	require.NoError(t, store.Apply(ctx, group, confirmations(2, "a", "b")))
	require.NoError(t, store.Apply(ctx, group, confirmations(2, "a", "b")), "a redelivery")
	require.NoError(t, store.Apply(ctx, group, confirmations(3, "b", "c")), "an overlap")

	counts, err := store.EventCounts(ctx, "e")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.Counts{Confirmed: 3, SeatsSold: 6}, counts.Counts))
	require.WithinDuration(t, time.Now(), counts.UpdatedAt, time.Minute)

	revenue, err := store.EventRevenue(ctx, "e")
	require.NoError(t, err)
	want := []figures.EventRevenue{{Currency: "KRW", Revenue: figures.Revenue{Confirmed: 330000, Payments: 3}}}
	require.Empty(t, cmp.Diff(want, revenue))
}

func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	store, ctx := setup(t), t.Context()
	broken := confirmations(1, "a")
	broken.Delta = func(map[string]bool) (figures.Delta, error) { return figures.Delta{}, errors.New("cannot be read") }
	require.ErrorContains(t, store.Apply(ctx, group, broken), "cannot be read")

	require.NoError(t, store.Apply(ctx, group, confirmations(1, "a")), "the claim went with the failure")
	counts, err := store.EventCounts(ctx, "e")
	require.NoError(t, err)
	require.Equal(t, int64(1), counts.Confirmed)
}

func TestReplicasCountSideBySide(t *testing.T) {
	t.Parallel()
	store := setup(t)
	g, ctx := errgroup.WithContext(t.Context())
	const replicas, batches = 8, 20
	for replica := range replicas {
		g.Go(func() error { return applyAll(ctx, store, replica, batches) })
	}
	require.NoError(t, g.Wait())
	counts, err := store.EventCounts(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, int64(2*batches), counts.Confirmed, "every replica was given the same events")
}

// applyAll applies the same batches as every other replica, some from the end.
func applyAll(ctx context.Context, store *postgres.Store, replica, batches int) error {
	for i := range batches {
		if replica%2 == 1 {
			i = batches - 1 - i
		}
		if err := store.Apply(ctx, group, confirmations(int64(i), fmt.Sprint("a", i), fmt.Sprint("b", i))); err != nil {
			return err
		}
	}
	return nil
}

func TestAnUnknownEventHasZeroes(t *testing.T) {
	t.Parallel()
	store := setup(t)
	counts, err := store.EventCounts(t.Context(), "nobody-knows")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(figures.EventCounts{}, counts))
	revenue, err := store.EventRevenue(t.Context(), "nobody-knows")
	require.NoError(t, err)
	require.Empty(t, revenue)
}
