package room_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/clocktest"
	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// house is an operator's desk over a store in memory, with sales that do as they are told.
type house struct {
	*room.Admin

	t      *testing.T
	store  *roomtest.Memory
	board  *room.Board
	sales  *roomtest.Sales
	closer *room.Closer
}

func newHouse(t *testing.T) *house {
	t.Helper()
	now := clocktest.New(epoch).Now
	h := &house{t: t, store: roomtest.NewMemory(now), board: room.NewBoard(), sales: roomtest.NewSales()}
	h.Admin = room.NewAdmin(h.board, h.store, h.sales, now)
	h.closer = room.NewCloser(h.board, h.store, h.sales, slog.New(slog.DiscardHandler))
	return h
}

func (h *house) activate(eventID string) room.Round {
	h.t.Helper()
	st, err := h.Activate(h.t.Context(), eventID, room.Change{})
	require.NoError(h.t, err)
	return st.Round
}

func (h *house) active(eventID string) bool {
	h.t.Helper()
	c, _, err := h.store.Read(h.t.Context(), eventID)
	require.NoError(h.t, err)
	return c.Active
}

// A mistyped id must not make a room that nobody ever comes to; but the door can be shut when nobody can say what there is.
func TestOnlyEventsGetARoom(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.sales.Answer("mistyped", false, errs.ErrEventNotFound)
	_, err := h.Activate(t.Context(), "mistyped", room.Change{})
	require.ErrorIs(t, err, room.ErrNoEvent)
	_, err = h.Status(t.Context(), "mistyped")
	require.ErrorIs(t, err, room.ErrInactive, "nothing was written")

	h.sales.Answer("overrun", false, errs.ErrUnavailable)
	h.activate("overrun")
	h.sales.Answer("older release", false, errs.ErrInternal) // which does not know the question
	h.activate("older release")

	h.activate("e")
	h.sales.Answer("e", false, errs.ErrEventNotFound)
	batch := int64(7)
	st, err := h.Activate(t.Context(), "e", room.Change{Batch: &batch})
	require.NoError(t, err, "a room that is active can be changed whatever else is away")
	require.Equal(t, batch, st.Settings.Batch)
}

func TestTheRoomOfAClosedSaleEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, id := range []string{"over", "on", "unanswered", "gone"} {
		h.activate(id)
	}
	h.sales.Answer("over", true, nil)
	h.sales.Answer("unanswered", true, errs.ErrUnavailable)
	h.sales.Answer("gone", false, errs.ErrEventNotFound)
	h.closer.Step(t.Context())
	require.False(t, h.active("over"))
	require.True(t, h.active("on"))
	require.True(t, h.active("unanswered"), "no answer is no end")
	require.True(t, h.active("gone"), "nor is a ticket service that has lost its events")
	h.closer.Step(t.Context())
	require.False(t, h.active("over"))
}

// The sale goes on, and an operator has opened its room again, while a replica still has the word that it is over.
func TestANewRoundIsNotEndedForTheOldOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first := h.activate("e")
	h.sales.Answer("e", true, nil)
	asked := false
	h.sales.Asked(func(string) {
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

// One event whose answer takes its time holds up nobody for longer than that, and the closer looks again and again.
func TestTheCloserGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		for i := range 20 {
			h.activate(fmt.Sprint(i))
		}
		h.sales.Asked(func(string) { time.Sleep(time.Second) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.closer.Run(ctx) }()
		time.Sleep(31 * time.Second)
		for i := range 20 {
			h.sales.Answer(fmt.Sprint(i), true, nil)
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

// stuck is a store in which the end of one room is never written.
type stuck struct {
	room.Rooms

	event string
}

func (s stuck) Stop(ctx context.Context, eventID string, round room.Round) error {
	if eventID == s.event {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Rooms.Stop(ctx, eventID, round)
}

// A store that does not answer for one room ends the others, now and later.
func TestARoomThatCannotBeEndedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.closer = room.NewCloser(h.board, stuck{h.store, "stuck"}, h.sales, slog.New(slog.DiscardHandler))
		for _, id := range []string{"stuck", "first", "second"} {
			h.activate(id)
		}
		h.sales.Answer("stuck", true, nil)
		for _, id := range []string{"first", "second"} {
			h.sales.Answer(id, true, nil)
			h.closer.Step(t.Context())
			require.False(t, h.active(id))
		}
		require.True(t, h.active("stuck"))
	})
}
