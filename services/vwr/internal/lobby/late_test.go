package lobby_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// If the root is too late for its beacon round, a later round decides the order, and nobody is
// served until then. The unpublished statement is replaced.
func TestLateRoot(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var unsigned atomic.Bool
	r := k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if unsigned.Load() && driverWrite(in) == "SET signature = :signature" {
			return errKilled
		}
		return nil
	}})
	r.activate(t, true)
	joined := r.join(t, 3)
	unsigned.Store(true)
	r.at(t, closes.Add(13*time.Second))
	d, _ := r.published(t)
	require.Nil(t, d.Statement, "it is stored and not signed")
	unsigned.Store(false)
	r.at(t, closes.Add(70*time.Second))
	r.at(t, starts)
	require.False(t, roomtest.Read(t, r.store, event).Lobby.Shuffled)
	r.at(t, starts.Add(time.Minute))
	report := r.verify(t, joined)
	require.Equal(t, int64(1), report.Statement.MissedRounds)
	r.positions(t, joined, report)
}

// If a position was issued before the entries were counted, which no replica should do, the lobby
// is void. Alerts continue until the room is closed, and no position is issued twice.
func TestPositionIssuedEarly(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	j := join(t, r, 0)
	r.step(t)
	round := roomtest.Read(t, r.store, event).Round
	_, err := k.db.UpdateItem(t.Context(), &awsdynamo.UpdateItemInput{
		TableName:                 aws.String(k.cfg.Prefix + "-vwr-counters"),
		Key:                       map[string]types.AttributeValue{"eventId": &types.AttributeValueMemberS{Value: event}},
		UpdateExpression:          aws.String("ADD nextPosition :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
	})
	require.NoError(t, err)
	entries := dynamo.NewLobbies(r.store)
	t.Cleanup(func() { require.NoError(t, entries.Close(context.Background())) })
	require.ErrorIs(t, entries.LobbyStore().Unfinished.SetSize(t.Context(), lobby.Key{EventID: event, Round: round}, 1), room.ErrStale)
	r.step(t)
	_, err = r.lobbies.Join(t.Context(), event, user(1))
	require.ErrorIs(t, err, room.ErrLobbyClosed, "an entry would get no position")
	require.Equal(t, "VOID", errs.From(err).Metadata["phase"])
	require.Equal(t, j, join(t, r, 0))
	for _, at := range []time.Time{closes.Add(13 * time.Second), starts} {
		r.at(t, at)
		require.True(t, r.driver.Progress()[lobby.Key{EventID: event, Round: round}].Void)
	}
	d, _ := r.published(t)
	require.Equal(t, fairdraw.PhaseVoid, d.Phase)
	_, err = fairdraw.Verify(d, nil, fairdraw.Options{Receipts: []string{j.Receipt}})
	require.NoError(t, err)
	require.Equal(t, int64(1), roomtest.Read(t, r.store, event).Issued)
	_, err = r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	r.step(t)
	require.Empty(t, r.driver.Progress())
}

// A root is signed until 75 s before its beacon round: a clock may be 5 s slow, the write takes
// time, and documents are cached. A later root waits for the round and lists it.
func TestRootInTime(t *testing.T) {
	t.Parallel()
	round := closes.Add(lobby.DefaultLead - time.Minute)
	for lead, phase := range map[time.Duration]fairdraw.Phase{76 * time.Second: fairdraw.PhaseRoot, 74 * time.Second: fairdraw.PhaseClosed} {
		t.Run(lead.String(), func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			r := k.replica(t, dynamotest.Hook{})
			r.activate(t, true)
			joined := r.join(t, 2)
			r.at(t, round.Add(-lead))
			d, _ := r.published(t)
			require.Equal(t, phase, d.Phase)
			for _, at := range []time.Time{round.Add(-50 * time.Second), starts, starts.Add(time.Minute)} {
				r.at(t, at)
			}
			report := r.verify(t, joined)
			require.True(t, report.Complete)
			require.Equal(t, phase == fairdraw.PhaseClosed, report.Statement.MissedRounds == 1)
		})
	}
}

// With the shortest lead, the shuffle is on time even if listing the entries takes 8 s.
func TestShortestLead(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.lead = lobby.MinLead
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	joined := r.join(t, 2)
	for _, at := range []time.Time{starts.Add(11*time.Second - k.lead), starts.Add(-4 * time.Second), starts} {
		r.at(t, at)
	}
	report := r.verify(t, joined)
	require.Zero(t, report.Statement.MissedRounds)
	require.True(t, report.Complete)
	require.True(t, roomtest.Read(t, r.store, event).Lobby.Shuffled)
}
