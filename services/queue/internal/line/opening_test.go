package line_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
)

// recovers reports whether the event's line is recovering. It reads the line from Redis.
func (w *testEnv) recovers() bool {
	w.t.Helper()
	st, err := w.store().Peek(w.t.Context(), w.event, line.KnownState{})
	require.NoError(w.t, err)
	require.True(w.t, st.Exists())
	return st.Recovering()
}

// wipe deletes all keys of the line.
func (w *testEnv) wipe() {
	w.t.Helper()
	keys := redistest.Keys(w.t, w.client, "{"+w.event+"}:*")
	require.NoError(w.t, w.client.Del(w.t.Context(), keys...).Err())
}

// A new line opens at once. A lost line recovers first, even if no replica knows it.
func TestNewLineOpensWithoutRecovery(t *testing.T) {
	w := newTestEnv(t)
	require.Equal(t, line.StatusActive, w.replica().check(t.Context(), w.event, "u").Place.Status)
	require.False(t, w.recovers())
	require.True(t, w.listed())

	w.clock.Advance(time.Second)
	w.wipe()
	r := w.replica()
	require.Equal(t, line.StatusQueued, r.check(t.Context(), w.event, "v").Place.Status)
	require.True(t, w.recovers())
	for range 30 {
		w.second(r)
	}
	require.False(t, w.recovers())
	require.Equal(t, line.StatusActive, r.check(t.Context(), w.event, "v").Place.Status)
}

// delayedStore delays Open until the test allows it.
type delayedStore struct {
	line.Store

	open <-chan struct{}
}

func (s delayedStore) Open(ctx context.Context, eventID string, m line.KnownState) (line.LineState, error) {
	<-s.open
	return s.Store.Open(context.WithoutCancel(ctx), eventID, m) // even for a late caller
}

// Only one of two replicas may open a new line. If the other one creates the line first, it is open
// for both.
func TestTwoReplicasCreateNewLine(t *testing.T) {
	w := newTestEnv(t)
	open := make(chan struct{})
	a, b := w.replicaOn(delayedStore{w.store(), open}), w.replica()
	var calls sync.WaitGroup
	first := make([]line.PlaceAnswer, 20)
	for i := range first {
		calls.Go(func() { first[i] = a.check(t.Context(), w.event, "a") })
	}
	w.tickets.waitOpened(t, w.event)
	require.Equal(t, line.StatusQueued, b.check(t.Context(), w.event, "b").Place.Status)
	require.True(t, w.recovers())
	close(open)
	calls.Wait()
	require.False(t, w.recovers())
	for _, answer := range first {
		require.NoError(t, answer.Err)
	}
	w.second(a, b)
	require.Equal(t, line.StatusActive, b.status(t.Context(), w.event, "b").Status)
	require.Equal(t, a.lines(t)[0].Epoch, b.lines(t)[0].Epoch)
}

var errLost = errors.New("connection lost")

// brokenStore neither opens nor creates lines while it is down.
type brokenStore struct {
	line.Store

	down bool
}

func (s *brokenStore) Open(ctx context.Context, eventID string, m line.KnownState) (line.LineState, error) {
	if s.down {
		return line.LineState{}, errLost
	}
	return s.Store.Open(ctx, eventID, m)
}

func (s *brokenStore) Check(ctx context.Context, eventID string, m line.KnownState, claims []line.PlaceClaim) (line.LineState, []line.ClaimOutcome, error) {
	if s.down && claims[0].Begin {
		return line.LineState{}, nil, errLost
	}
	return s.Store.Check(ctx, eventID, m, claims)
}

// A replica dies after the ticket service has recorded the opening, before the line is open. Then
// the line begins with a recovery.
func TestCrashDuringOpeningLeavesRecoveringLine(t *testing.T) {
	w := newTestEnv(t)
	dying := w.replicaOn(&brokenStore{w.store(), true})
	require.ErrorIs(t, dying.check(t.Context(), w.event, "u").Err, errLost)
	require.Equal(t, line.StatusQueued, w.replica().check(t.Context(), w.event, "u").Place.Status)
	require.True(t, w.recovers())
}

// flakyStore is a store whose first Open fails.
type flakyStore struct {
	line.Store

	failed *bool
}

func (s flakyStore) Open(ctx context.Context, eventID string, m line.KnownState) (line.LineState, error) {
	if !*s.failed {
		*s.failed = true
		return line.LineState{}, errLost
	}
	return s.Store.Open(ctx, eventID, m)
}

// A line that could not be opened begins with a recovery. If a second attempt to open it succeeds,
// the recovery ends at once.
func TestFailedOpeningIsRetriedAtOnce(t *testing.T) {
	w := newTestEnv(t)
	r := w.replicaOn(flakyStore{w.store(), new(bool)})
	require.NoError(t, r.check(t.Context(), w.event, "u").Err)
	require.False(t, w.recovers())
	w.second(r)
	require.Equal(t, line.StatusActive, r.status(t.Context(), w.event, "u").Status)
}

// A replica that has had the opening recorded may retry a failed Open, unless the line may have
// been used meanwhile.
func TestFailedOpeningIsRetriedBriefly(t *testing.T) {
	for after, recovers := range map[time.Duration]bool{4 * time.Second: false, 6 * time.Second: true} {
		t.Run(after.String(), func(t *testing.T) {
			w := newTestEnv(t)
			store := &brokenStore{w.store(), true}
			r := w.replicaOn(store)
			require.ErrorIs(t, r.check(t.Context(), w.event, "u").Err, errLost)
			store.down = false
			w.clock.Advance(after)
			require.NoError(t, r.check(t.Context(), w.event, "u").Err)
			require.Equal(t, recovers, w.recovers())
		})
	}
}

// If the opening of a line is not recorded, the replica that reads the line's settings has it
// recorded, so that the line recovers after a loss.
func TestUnrecordedLineIsRecorded(t *testing.T) {
	w := newTestEnv(t)
	_, err := w.store().Open(t.Context(), w.event, line.KnownState{})
	require.NoError(t, err)
	require.NoError(t, w.replica().check(t.Context(), w.event, "u").Err) // it reads the settings
	require.False(t, w.recovers())
	w.clock.Advance(time.Second)
	w.wipe()
	require.Equal(t, line.StatusQueued, w.replica().check(t.Context(), w.event, "v").Place.Status)
	require.True(t, w.recovers())
}

// A lost line is not opened as a new one, even if nobody has got a place in it.
func TestLostLineIsNotOpened(t *testing.T) {
	w := newTestEnv(t)
	w.replica().open(t, w.event)
	w.clock.Advance(time.Second)
	w.wipe()
	r := w.replica()
	r.open(t, w.event)
	require.Equal(t, line.StatusQueued, r.check(t.Context(), w.event, "u").Place.Status)
	require.True(t, w.recovers())
}

// Without a notification, an operator's change of line settings takes effect within seconds.
func TestChangedSettingsAreReadImmediately(t *testing.T) {
	w, tickets := newSaleEnv(t, line.OnSale)
	r := w.replicaAsking(tickets)
	require.Equal(t, line.StatusActive, r.check(t.Context(), w.event, "in").Place.Status)
	require.Equal(t, line.StatusQueued, r.check(t.Context(), w.event, "waits").Place.Status)
	w.second(r)
	r.worker.RefreshSettings(t.Context())
	tickets.setThreshold(w.event, 2)
	for range 2 {
		w.second(r)
		r.worker.RefreshSettings(t.Context())
	}
	require.Equal(t, line.StatusActive, r.status(t.Context(), w.event, "waits").Status)
	read := tickets.settingsRead()
	for range 20 {
		w.second(r)
		r.worker.RefreshSettings(t.Context())
	}
	require.Equal(t, read, tickets.settingsRead(), "no change, no reading")
}

// Replicas do not keep the settings of an unused line up to date. They read them again before the
// next visitor is admitted.
func TestSettingsOfIdleLineAreReadFirst(t *testing.T) {
	w, tickets := newSaleEnv(t, line.OnSale)
	r := w.replicaAsking(tickets)
	require.Equal(t, line.StatusActive, r.check(t.Context(), w.event, "in").Place.Status)
	w.clock.Advance(2 * time.Minute)
	tickets.setThreshold(w.event, 2)
	require.Equal(t, line.StatusActive, r.check(t.Context(), w.event, "second").Place.Status)
	read := tickets.settingsRead()
	require.Equal(t, line.StatusQueued, r.check(t.Context(), w.event, "third").Place.Status)
	require.Equal(t, read, tickets.settingsRead(), "current again")
}
