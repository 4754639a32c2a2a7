package figures_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/stats/internal/figures"
)

// batches is a fake store that records the batches that it is given.
type batches []figures.Batch

func (b *batches) Apply(_ context.Context, batch figures.Batch) error {
	*b = append(*b, batch)
	return nil
}

const inboxAge = 30 * 24 * time.Hour

// count has a Service count records of partition 1, and returns the batch that the store gets.
func count(t *testing.T, records ...figures.Record) figures.Batch {
	t.Helper()
	var store batches
	service := figures.NewService(&store, inboxAge, func() time.Time { return evening })
	require.NoError(t, service.Count(t.Context(), "topic", 1, records))
	require.Len(t, store, 1)
	return store[0]
}

// created returns a record that adds one reservation.
func created(id string, offset int64) figures.Record {
	return figures.Record{EventID: id, Offset: offset, Time: evening, AddTo: func(d *figures.Delta) error {
		d.Add(at("RESERVATION_CREATED"))
		return nil
	}}
}

func TestBatchAddsEachFreshEventOnce(t *testing.T) {
	t.Parallel()
	got := count(t, created("a", 5), created("b", 6), created("a", 7), created("counted", 8))
	want := figures.Batch{Topic: "topic", Partition: 1, Next: 9, EventIDs: []string{"a", "b", "a", "counted"}, Times: slices.Repeat([]time.Time{evening}, 4)}
	require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(figures.Batch{}, "Delta")))
	delta, err := got.Delta(map[string]bool{"a": true, "b": true})
	require.NoError(t, err)
	require.Equal(t, counted(map[figures.Figure]int64{figures.Created: 2}), delta)
}

func TestBatchListsOldEvents(t *testing.T) {
	t.Parallel()
	oldest := evening.Add(-inboxAge)
	records := []figures.Record{created("old", 5), created("new", 6), created("older", 7), created("old", 8)}
	for i, at := range []time.Time{oldest.Add(-time.Nanosecond), oldest, oldest.AddDate(-1, 0, 0), oldest.Add(-time.Nanosecond)} {
		records[i].Time = at
	}
	require.Empty(t, cmp.Diff(map[string]int64{"old": 5, "older": 7}, count(t, records...).Old))
}

// A batch of new events is decoded once, however often its transaction is repeated.
func TestNewEventsAreDecodedOnce(t *testing.T) {
	t.Parallel()
	decoded := 0
	batch := count(t, figures.Record{EventID: "a", AddTo: func(d *figures.Delta) error {
		decoded++
		return created("a", 1).AddTo(d)
	}})
	for range 2 {
		delta, err := batch.Delta(map[string]bool{"a": true})
		require.NoError(t, err)
		require.Len(t, delta, 1)
	}
	require.Equal(t, 1, decoded)
}

// A panic while events are decoded in the background becomes an error of the batch.
func TestPanicOfAnEventFailsItsBatch(t *testing.T) {
	t.Parallel()
	batch := count(t, created("a", 1), figures.Record{EventID: "b", AddTo: func(*figures.Delta) error { panic("cannot be read") }})
	_, err := batch.Delta(map[string]bool{"a": true, "b": true})
	require.ErrorIs(t, err, errs.ErrInternal)
	require.ErrorContains(t, errs.From(err).Cause(), "cannot be read")
	delta, err := batch.Delta(map[string]bool{"a": true})
	require.NoError(t, err, "the event is counted")
	require.Len(t, delta, 1)
}

// An unreadable event that is counted already does not fail its batch.
func TestOnlyFreshEventsCount(t *testing.T) {
	t.Parallel()
	unreadable := errors.New("cannot be read")
	batch := count(t, figures.Record{EventID: "x", AddTo: func(*figures.Delta) error { return unreadable }})
	_, err := batch.Delta(map[string]bool{})
	require.NoError(t, err)
	_, err = batch.Delta(map[string]bool{"x": true})
	require.ErrorIs(t, err, unreadable)
}
