package lobby_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// nextRound ends the running round, if any, and opens a lobby that starts an hour from now.
func (r *replica) nextRound(t *testing.T) lobby.Key {
	t.Helper()
	_, _ = r.admin.Deactivate(t.Context(), event)
	r.step(t)
	st, err := r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: room.LobbyTerms{StartsAt: r.kit.clock.Now().Add(time.Hour)}})
	require.NoError(t, err)
	return lobby.Key{EventID: event, Round: st.Round}
}

// An operator opens one lobby after another, and abandons the second. A replica that has cached
// none of them lists them all, and each one's receipts can be verified.
func TestFormerRoundsArePublic(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	var rounds []lobby.Key
	var receipts []lobby.JoinResult
	for i := range 3 {
		began := k.clock.Now()
		rounds = append(rounds, r.nextRound(t))
		receipts = append(receipts, join(t, r, 7))
		if i == 0 {
			r.at(t, began.Add(time.Hour-time.Minute))
			r.at(t, began.Add(time.Hour))
		}
	}
	other := k.replica(t, dynamotest.Hook{})
	list, next, err := other.lobbies.ListLobbies(t.Context(), event, 0)
	require.NoError(t, err)
	require.Zero(t, next)
	require.Len(t, list, 3)
	for i, phase := range []fairdraw.Phase{fairdraw.PhaseSettled, fairdraw.PhaseVoid, fairdraw.PhaseOpen} {
		got := list[2-i]
		require.Equal(t, rounds[i].Round, got.Round)
		require.Equal(t, phase, got.Phase)
		require.Equal(t, i == 0, got.Entries != nil && *got.Entries == 1, "the root is public")
		d, entries := other.publishedOf(t, rounds[i])
		require.Equal(t, got.Commitment.String(), d.CommitmentHash)
		report, err := fairdraw.Verify(d, entries, fairdraw.Options{Receipts: []string{receipts[i].Receipt}})
		require.NoError(t, err)
		require.Equal(t, i == 0, report.Complete)
		require.Equal(t, report.Commitment.CutoffAt, got.ClosesAt)
		require.Equal(t, report.Commitment.AnnouncedAt, got.StartsAt)
	}

	proof, err := other.lobbies.Proof(t.Context(), rounds[0], receipts[0].RequestID)
	require.NoError(t, err)
	require.Equal(t, []int64{1, int64(rounds[0].Round)}, []int64{proof.Rank, int64(proof.Round)})
	_, round, err := other.lobbies.Document(t.Context(), latest)
	require.NoError(t, err)
	require.Equal(t, rounds[2].Round, round)
	list, _, err = other.lobbies.ListLobbies(t.Context(), event, rounds[1].Round)
	require.NoError(t, err)
	require.Len(t, list, 1, "the list goes on behind a round")
	_, _, err = other.lobbies.Document(t.Context(), lobby.Key{EventID: event, Round: rounds[2].Round + 1})
	require.ErrorIs(t, err, room.ErrLobbyNotFound)
	_, err = other.lobbies.Proof(t.Context(), rounds[1], uuid.New())
	require.ErrorIs(t, err, room.ErrLobbyNotFound, "a lobby without a root")
}

// No data of a former lobby is deleted before it is 90 days old.
func TestFormerRoundsAreKept(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	first := r.nextRound(t)
	join(t, r, 1)
	r.nextRound(t)
	r.step(t)
	kept := k.clock.Now().Add(90 * 24 * time.Hour).Unix()
	out, err := k.db.Scan(t.Context(), &awsdynamo.ScanInput{TableName: aws.String(k.cfg.Table("vwr-positions"))})
	require.NoError(t, err)
	found := 0
	for _, it := range out.Items {
		item := pkgdynamo.Reader{Item: it}
		if strings.Contains(item.String("requestId"), strconv.FormatInt(int64(first.Round), 10)) {
			found++
			require.GreaterOrEqual(t, item.Number("ttl"), kept)
		}
	}
	require.Equal(t, 3, found, "the shuffle, the entry, and its group")
}

// The list of an event's lobbies is read once a second, however many ask.
func TestListOfLobbiesIsReadOnceASecond(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.replica(t, dynamotest.Hook{}).nextRound(t)
	var reads atomic.Int64
	r := k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.QueryInput); ok {
			reads.Add(1)
		}
		return nil
	}})
	list := func() {
		t.Helper()
		got, _, err := r.lobbies.ListLobbies(t.Context(), event, 0)
		require.NoError(t, err)
		require.Len(t, got, 1)
	}
	list()
	first := reads.Load()
	list()
	require.Equal(t, first, reads.Load())
	k.clock.Advance(time.Second)
	list()
	require.Equal(t, 2*first, reads.Load())
}
