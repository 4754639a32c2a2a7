package room_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// A room for signed-in users gives each user one position. It is valid in every browser in which
// the user is signed in, and in no other browser.
func TestPositionOfASignedInUser(t *testing.T) {
	t.Parallel()
	_, d := newReplicas(t, 2)
	d[0].activate(t)
	before := d[0].assign(t, "anybody")
	st, err := d[0].Activate(t.Context(), "e", room.SettingsChange{SignIn: new(true)})
	require.NoError(t, err)
	require.True(t, st.Settings.SignIn)
	_, err = roomtest.Assign(t.Context(), d[0].Service, "e", room.VisitorIDs{Visitor: "a"})
	require.ErrorIs(t, err, room.ErrSignedOut)

	visitorIDs := func(visitor, user string) room.VisitorIDs { return room.VisitorIDs{Visitor: visitor, User: user} }
	first, err := roomtest.Assign(t.Context(), d[0].Service, "e", visitorIDs("a", "alice"))
	require.NoError(t, err)
	require.True(t, first.OfUser())
	require.False(t, before.OfUser())
	for _, visitor := range []string{"a", "b", "anybody"} {
		again, err := roomtest.Assign(t.Context(), d[0].Service, "e", visitorIDs(visitor, "alice"))
		require.NoError(t, err)
		require.Equal(t, first.Record, again.Record)
	}
	other, err := roomtest.Assign(t.Context(), d[0].Service, "e", visitorIDs("a", "bob"))
	require.NoError(t, err)
	require.Equal(t, first.Position+1, other.Position)

	d[0].advance(t, 10)
	for _, ticket := range []string{first.Ticket, ""} {
		checked, err := d[1].Check(t.Context(), "e", visitorIDs("b", "alice"), first.RequestID, ticket)
		require.NoError(t, err)
		require.True(t, checked.Admitted)
		_, err = d[1].Check(t.Context(), "e", visitorIDs("a", "bob"), first.RequestID, ticket)
		require.ErrorIs(t, err, room.ErrUnknown)
	}
	_, err = d[1].Check(t.Context(), "e", visitorIDs("a", ""), first.RequestID, "")
	require.ErrorIs(t, err, room.ErrSignedOut)
	require.True(t, d[1].check(t, "anybody", before, before.Ticket).Admitted, "positions stay")

	d[0].deactivate(t)
	require.False(t, d[0].activate(t).Settings.SignIn, "a new round begins without")
}
