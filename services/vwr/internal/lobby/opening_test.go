package lobby_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/room"
)

// A lobby opens only if its beacon publishes rounds, and its chain has the configured hash.
func TestLobbyWithABeaconThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	open := func(change func(*room.LobbyTerms)) error {
		terms := r.terms(true)
		change(&terms)
		_, err := r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: terms})
		return err
	}
	require.ErrorIs(t, open(func(terms *room.LobbyTerms) { terms.Beacon.Genesis -= 30 * 24 * 3600 }), room.ErrInvalidSettings)
	require.ErrorIs(t, open(func(terms *room.LobbyTerms) {
		terms.Beacon.BeaconID = "retired" // a chain that no source publishes
		terms.Beacon.ChainHash = terms.Beacon.Hash()
	}), room.ErrInvalidSettings)
	k.server.Config.Handler = http.NotFoundHandler()
	require.ErrorIs(t, open(func(*room.LobbyTerms) {}), room.ErrInvalidSettings)
	k.server.Close()
	require.ErrorIs(t, open(func(*room.LobbyTerms) {}), errs.ErrBeaconUnavailable)
	_, found, err := r.store.Read(t.Context(), event)
	require.NoError(t, err)
	require.False(t, found)
}

// A lobby whose beacon publishes no more becomes void a week after the start, and not before.
func TestLobbyWhoseBeaconHasEnded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	r.join(t, 3)
	r.at(t, closes.Add(13*time.Second))
	k.server.Config.Handler = http.NotFoundHandler()
	for _, at := range []time.Duration{0, fairdraw.BeaconDeadline - 2*time.Second} {
		r.at(t, starts.Add(at))
		d, _ := r.published(t)
		require.Equal(t, fairdraw.PhaseRoot, d.Phase)
		require.Empty(t, d.VoidReason)
	}
	r.at(t, starts.Add(fairdraw.BeaconDeadline))
	d, _ := r.published(t)
	require.Equal(t, fairdraw.PhaseVoid, d.Phase)
	require.Equal(t, "BEACON_LOST", d.VoidReason)
}
