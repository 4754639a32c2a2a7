package room_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/room"
)

// An operator can change where a room leads during a round. The next round leads to the line again.
func TestNextIsASetting(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 1)
	id := uuid.NewString()
	set := func(id string, c room.SettingsChange) (room.State, error) { return d[0].Activate(t.Context(), id, c) }
	for _, next := range []room.NextPage{room.NextPromo, room.NextReward, room.NextQueue, room.NextPromo} {
		st, err := set(id, room.SettingsChange{Next: &next})
		require.NoError(t, err)
		require.Equal(t, next, st.Settings.Next)
	}
	require.Equal(t, room.NextQueue, d[0].activate(t).Settings.Next)
	inFlight := room.MaxInFlight
	for path, refused := range map[string]struct {
		id     string
		change room.SettingsChange
	}{
		"next (unknown)":              {id, room.SettingsChange{Next: new(room.NextPage("SHOP"))}},
		"next (of an active event)":   {"e", room.SettingsChange{Next: new(room.NextPromo)}},
		"next (of an inactive event)": {"new", room.SettingsChange{Next: new(room.NextReward)}},
		"inlet":                       {id, room.SettingsChange{Inlet: &inFlight, MaxInFlight: new(int64(10))}},
	} {
		_, err := set(refused.id, refused.change)
		require.ErrorIs(t, err, room.ErrInvalidSettings, path)
		require.Equal(t, strings.Fields(path)[0], errs.From(err).Fields[0].Path)
	}
	st, err := d[0].Deactivate(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, room.NextPromo, st.Settings.Next, "kept for visitors who come later")
	st, err = set(id, room.SettingsChange{})
	require.NoError(t, err)
	require.Equal(t, room.NextQueue, st.Settings.Next)
}

// A room in front of a promotion or a campaign opens only for one that exists, and ends with it.
func TestRoomEndsWithWhatItLeadsTo(t *testing.T) {
	t.Parallel()
	for next, missing := range map[room.NextPage]error{room.NextPromo: room.ErrNoPromotion, room.NextReward: room.ErrNoCampaign} {
		h := newAdminFixture(t)
		id, other := uuid.NewString(), uuid.NewString()
		h.sales.SetAnswer(id, false, missing)
		_, err := h.Activate(t.Context(), id, room.SettingsChange{Next: &next})
		require.ErrorIs(t, err, missing)
		_, err = h.Status(t.Context(), id)
		require.ErrorIs(t, err, room.ErrInactive, "nothing was written")

		h.activate(other)
		h.sales.SetAnswer(other, false, missing)
		_, err = h.Activate(t.Context(), other, room.SettingsChange{Next: &next})
		require.ErrorIs(t, err, missing, "an active room")
		st, err := h.Status(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, room.NextQueue, st.Settings.Next)

		h.sales.SetAnswer(id, false, nil)
		_, err = h.Activate(t.Context(), id, room.SettingsChange{Next: &next})
		require.NoError(t, err)
		h.closer.Step(t.Context())
		require.True(t, h.active(id))
		h.sales.SetAnswer(id, true, nil)
		h.closer.Step(t.Context())
		require.False(t, h.active(id))
	}
}

// Without a Destination for promotions, their rooms open unchecked, and only operators end them.
func TestRoomOfAnUnknownDestination(t *testing.T) {
	t.Parallel()
	h := newAdminFixture(t)
	only := room.Destinations{room.NextQueue: h.sales}
	h.Admin = room.NewAdmin(h.cache, h.store, only, nil, testkit.NewClock(epoch).Now)
	h.closer = room.NewCloser(h.cache, h.store, only, slog.New(slog.DiscardHandler))
	id := uuid.NewString()
	h.sales.SetAnswer(id, true, room.ErrNoEvent)
	_, err := h.Activate(t.Context(), id, room.SettingsChange{Next: new(room.NextPromo)})
	require.NoError(t, err)
	h.closer.Step(t.Context())
	require.True(t, h.active(id))
}
