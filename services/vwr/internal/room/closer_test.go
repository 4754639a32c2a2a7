package room_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// adminFixture has an Admin and a Closer with an in-memory store and fake sales.
type adminFixture struct {
	*room.Admin

	t      *testing.T
	store  *roomtest.Memory
	cache  *room.StateCache
	sales  *roomtest.Sales
	closer *room.Closer
}

func newAdminFixture(t *testing.T) *adminFixture {
	t.Helper()
	now := testkit.NewClock(epoch).Now
	h := &adminFixture{t: t, store: roomtest.NewMemory(now), cache: room.NewStateCache(), sales: roomtest.NewSales()}
	h.Admin = room.NewAdmin(h.cache, h.store, h.sales.Destinations(), nil, now)
	h.closer = room.NewCloser(h.cache, h.store, h.sales.Destinations(), slog.New(slog.DiscardHandler))
	return h
}

func (h *adminFixture) activate(eventID string) room.Round {
	h.t.Helper()
	st, err := h.Activate(h.t.Context(), eventID, room.SettingsChange{})
	require.NoError(h.t, err)
	return st.Round
}

func (h *adminFixture) active(eventID string) bool {
	h.t.Helper()
	c, _, err := h.store.Read(h.t.Context(), eventID)
	require.NoError(h.t, err)
	return c.Active
}

// An unknown id gets no waiting room. If it cannot be checked whether an event exists, the event
// gets one.
func TestActivateRequiresKnownEvent(t *testing.T) {
	t.Parallel()
	h := newAdminFixture(t)
	h.sales.SetAnswer("unknown", false, errs.ErrEventNotFound)
	_, err := h.Activate(t.Context(), "unknown", room.SettingsChange{})
	require.ErrorIs(t, err, room.ErrNoEvent)
	_, err = h.Status(t.Context(), "unknown")
	require.ErrorIs(t, err, room.ErrInactive, "nothing was written")

	h.sales.SetAnswer("overloaded", false, errs.ErrUnavailable)
	h.activate("overloaded")
	h.sales.SetAnswer("failing", false, errs.ErrInternal)
	h.activate("failing")

	h.activate("e")
	h.sales.SetAnswer("e", false, errs.ErrEventNotFound)
	batch := int64(7)
	st, err := h.Activate(t.Context(), "e", room.SettingsChange{Batch: &batch})
	require.NoError(t, err, "a room that is active can be changed whatever else is away")
	require.Equal(t, batch, st.Settings.Batch)
}

func TestCloserEndsRoomOfClosedSale(t *testing.T) {
	t.Parallel()
	h := newAdminFixture(t)
	for _, id := range []string{"over", "on", "unanswered", "gone"} {
		h.activate(id)
	}
	h.sales.SetAnswer("over", true, nil)
	h.sales.SetAnswer("unanswered", true, errs.ErrUnavailable)
	h.sales.SetAnswer("gone", false, errs.ErrEventNotFound)
	h.closer.Step(t.Context())
	require.False(t, h.active("over"))
	require.True(t, h.active("on"))
	require.True(t, h.active("unanswered"), "no answer is no end")
	require.True(t, h.active("gone"), "nor is a ticket service that has lost its events")
	h.closer.Step(t.Context())
	require.False(t, h.active("over"))
}

// A check finds that a sale has ended, but meanwhile an operator has started a new round. The
// Closer does not end the new round.
func TestCloserKeepsNewRound(t *testing.T) {
	t.Parallel()
	h := newAdminFixture(t)
	first := h.activate("e")
	h.sales.SetAnswer("e", true, nil)
	asked := false
	h.sales.OnQuery(func(string) {
		if asked {
			return
		}
		asked = true
		_, err := h.Deactivate(t.Context(), "e")
		require.NoError(t, err)
		require.Greater(t, h.activate("e"), first)
	})
	h.closer.Step(t.Context())
	require.True(t, h.active("e"))
}

// A slow check delays a step of the Closer only by its own duration. Later steps follow.
func TestCloserToleratesSlowChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newAdminFixture(t)
		for i := range 20 {
			h.activate(fmt.Sprint(i))
		}
		h.sales.OnQuery(func(string) { time.Sleep(time.Second) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.closer.Run(ctx) }()
		time.Sleep(31 * time.Second)
		for i := range 20 {
			h.sales.SetAnswer(fmt.Sprint(i), true, nil)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		for i := range 20 {
			require.False(t, h.active(fmt.Sprint(i)))
		}
		cancel()
		require.NoError(t, <-done)
	})
}

// stuckStore is a store in which Stop hangs for one event.
type stuckStore struct {
	room.RoomStore

	event string
}

func (s stuckStore) Stop(ctx context.Context, eventID string, round room.Round) error {
	if eventID == s.event {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.RoomStore.Stop(ctx, eventID, round)
}

// If Stop hangs for one room, the other rooms are ended in the same step and in later ones.
func TestCloserIsolatesFailingRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newAdminFixture(t)
		h.closer = room.NewCloser(h.cache, stuckStore{h.store, "stuck"}, h.sales.Destinations(), slog.New(slog.DiscardHandler))
		for _, id := range []string{"stuck", "first", "second"} {
			h.activate(id)
		}
		h.sales.SetAnswer("stuck", true, nil)
		for _, id := range []string{"first", "second"} {
			h.sales.SetAnswer(id, true, nil)
			h.closer.Step(t.Context())
			require.False(t, h.active(id))
		}
		require.True(t, h.active("stuck"))
	})
}
