package lobby_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// isListCall reports whether a call lists entries of an event.
func isListCall(in any, eventID string) bool {
	q, ok := in.(*awsdynamo.QueryInput)
	if !ok {
		return false
	}
	v, _ := q.ExpressionAttributeValues[":group"].(*types.AttributeValueMemberS)
	return v != nil && strings.HasPrefix(v.Value, eventID+"#")
}

// slowLister returns a replica that cannot list the event's entries until release is closed.
func (k *kit) slowLister(t *testing.T) (r *replica, listing <-chan struct{}, release chan<- struct{}) {
	t.Helper()
	begun, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r = k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if isListCall(in, event) {
			once.Do(func() { close(begun) })
			<-released
		}
		return nil
	}})
	return r, begun, released
}

// While the entries of one lobby are listed, those of another can be read. A caller that waits for
// the first lobby may stop waiting.
func TestSlowListing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	first := k.replica(t, dynamotest.Hook{})
	first.activate(t, true)
	_, err := first.admin.Activate(t.Context(), "other", room.SettingsChange{Lobby: first.terms(true)})
	require.NoError(t, err)
	first.join(t, 1)
	first.at(t, closes.Add(13*time.Second))
	r, listing, release := k.slowLister(t)
	var work sync.WaitGroup
	work.Go(func() {
		if part, err := r.lobbies.Entries(t.Context(), latest, 0, lobby.PartSize); err != nil || part.Total != 16 {
			t.Errorf("%d bytes, %v", part.Total, err)
		}
	})
	<-listing
	_, err = r.lobbies.Entries(t.Context(), lobby.Key{EventID: "other"}, 0, 1)
	require.NoError(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	// The document is cached, so the call waits only for the entries.
	_, err = r.lobbies.Entries(gone, latest, 0, 1)
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	work.Wait()
}

// While a replica lists the entries of a lobby, which takes minutes, it shuffles another one.
func TestSlowListingDelaysNoOtherLobby(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r, listing, release := k.slowLister(t)
	r.activate(t, true)
	_, err := r.admin.Activate(t.Context(), "other", room.SettingsChange{Lobby: r.terms(true)})
	require.NoError(t, err)
	r.join(t, 1)
	_, err = r.lobbies.Join(t.Context(), "other", user(0))
	require.NoError(t, err)
	require.NoError(t, r.advancer.Step(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = r.driver.Run(ctx) })
	defer work.Wait()
	defer cancel()
	k.clock.Set(closes.Add(13 * time.Second))
	<-listing
	other := func() room.Lobby { return roomtest.Read(t, r.store, "other").Lobby }
	testkit.Until(t, func() bool {
		for key, p := range r.driver.Progress() {
			if key.EventID == "other" && p.Phase == fairdraw.PhaseRoot {
				return true
			}
		}
		return false
	}, "the root of the other lobby is public")
	k.clock.Set(starts)
	testkit.Until(t, func() bool { return other().Shuffled }, "the other lobby is shuffled")
	require.False(t, roomtest.Read(t, r.store, event).Lobby.Sized)
	k.clock.Set(starts.Add(30 * time.Second)) // early enough for a later beacon round
	close(release)
	testkit.Until(t, func() bool { return roomtest.Read(t, r.store, event).Lobby.Sized }, "the listed lobby goes on")
}

// Every replica, even one that takes no step of the lobby itself, has the positions in memory
// before the start. So it lists no entries at the start, when everybody asks for positions.
func TestPositionsAreReadyAtTheStart(t *testing.T) {
	t.Parallel()
	for name, withBeacon := range map[string]bool{"beacon": true, "no beacon": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			var started atomic.Bool
			first, other := k.replica(t, dynamotest.Hook{}), k.replica(t, dynamotest.Hook{Before: func(in any) error {
				if started.Load() && isListCall(in, event) {
					return errors.New("listed after the start")
				}
				return nil
			}})
			first.activate(t, withBeacon)
			joined := first.join(t, 5)
			for _, at := range []time.Time{closes.Add(13 * time.Second), starts.Add(-time.Minute)} {
				first.at(t, at)
				other.step(t)
			}
			_, err := other.rooms.Check(t.Context(), event, who(0), joined[0].RequestID, joined[0].Ticket)
			require.NoError(t, err)
			d, _ := other.published(t)
			require.Empty(t, d.Seed)
			started.Store(true)
			first.at(t, starts)
			other.step(t)
			require.Zero(t, other.driver.Stats().Failures.Load())
			other.positions(t, joined, first.verify(t, joined))
		})
	}
}
