package lobby_test

import (
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// A lobby goes through all phases. Each phase publishes only what it may.
func TestLobby(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.replica(t, dynamotest.Hook{}), k.replica(t, dynamotest.Hook{})
	a.activate(t, true)
	joined := a.join(t, 12)
	b.step(t)
	again, err := b.lobbies.Join(t.Context(), event, user(3))
	require.NoError(t, err)
	require.Equal(t, joined[3], again, "one entry per user, with the same receipt at every replica")
	joined = append(joined, join(t, b, 12))

	_, err = roomtest.Assign(t.Context(), b.rooms, event, room.VisitorIDs{Visitor: "early"})
	require.ErrorIs(t, err, room.ErrLobbyOpen)
	waiting, err := b.rooms.Check(t.Context(), event, who(3), joined[3].RequestID, joined[3].Ticket)
	require.NoError(t, err)
	require.Equal(t, room.CheckResult{LobbyUntil: starts.UnixMilli(), NextPoll: waiting.NextPoll, AsksAt: starts.UnixMilli()}, waiting)
	d, _ := a.published(t)
	require.Equal(t, fairdraw.PhaseOpen, d.Phase)

	k.clock.Set(closes)
	_, err = a.lobbies.Join(t.Context(), event, "late")
	require.ErrorIs(t, err, room.ErrLobbyClosed, "the closing counts to the millisecond")
	again, err = a.lobbies.Join(t.Context(), event, user(3))
	require.NoError(t, err)
	require.Equal(t, joined[3], again, "an entry is found after the closing")

	b.at(t, closes.Add(11*time.Second))
	d, _ = a.published(t)
	require.Equal(t, fairdraw.PhaseClosed, d.Phase, "entries accepted before the closing may still be stored")
	b.at(t, closes.Add(13*time.Second))
	root, _ := a.published(t)
	require.Equal(t, fairdraw.PhaseRoot, root.Phase)
	root.SavedAt = k.clock.Now().UnixMilli()
	a.at(t, starts.Add(-time.Minute))
	d, _ = a.published(t)
	require.NotNil(t, d.Beacon, "the value is public at its round")
	require.Empty(t, d.Seed, "and the order is not")
	require.Equal(t, int64(13), roomtest.Read(t, a.store, event).Issued)
	_, err = roomtest.Assign(t.Context(), a.rooms, event, room.VisitorIDs{Visitor: "early"})
	require.ErrorIs(t, err, room.ErrLobbyOpen)

	b.at(t, starts)
	a.step(t)
	report := a.verify(t, joined, root)
	require.True(t, report.Complete)
	require.False(t, report.RootSeenAt.IsZero(), "a saved copy proves the time of the root")
	a.positions(t, joined, report)
	b.positions(t, joined, report)

	late, err := roomtest.Assign(t.Context(), a.rooms, event, room.VisitorIDs{Visitor: "late"})
	require.NoError(t, err)
	require.Equal(t, int64(14), late.Position, "later arrivals are behind the lobby")
	own, err := roomtest.Assign(t.Context(), b.rooms, event, room.VisitorIDs{Visitor: "another browser", User: user(5)})
	require.NoError(t, err)
	require.Equal(t, int64(report.Receipts[5].Rank), own.Position, "who has joined gets no second position")
}

func join(t *testing.T, r *replica, i int) lobby.JoinResult {
	t.Helper()
	j, err := r.lobbies.Join(t.Context(), event, user(i))
	require.NoError(t, err)
	return j
}

// Nobody is served before the shuffle. Afterwards the entries are served in the shuffled order, and
// the tokens belong to users.
func TestServingBeginsWithTheShuffle(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, false)
	joined := r.join(t, 3)
	r.at(t, starts.Add(-time.Second))
	_, err := r.admin.Advance(t.Context(), event, 1)
	require.ErrorIs(t, err, room.ErrLobbyOpen)
	c := roomtest.Read(t, r.store, event)
	require.Equal(t, int64(3), c.Issued)
	require.ErrorIs(t, r.store.SetServing(t.Context(), c, 1), room.ErrStale, "the table refuses it too")

	r.at(t, starts)
	_, err = r.admin.Advance(t.Context(), event, 1)
	require.NoError(t, err)
	admitted := 0
	for i, j := range joined {
		got, err := r.rooms.Check(t.Context(), event, who(i), j.RequestID, j.Ticket)
		require.NoError(t, err)
		require.Equal(t, got.Position == 1, got.Admitted)
		if got.Admitted {
			admitted++
			require.NotEmpty(t, got.Token)
		}
		_, err = r.rooms.Check(t.Context(), event, who(i+1), j.RequestID, j.Ticket)
		require.ErrorIs(t, err, room.ErrUnknown, "the ticket of another user")
		lost, err := r.rooms.Check(t.Context(), event, who(i), j.RequestID, "")
		require.NoError(t, err)
		require.Equal(t, got.Position, lost.Position, "a lost ticket is replaced")
	}
	require.Equal(t, 1, admitted)
}

// An entry belongs to the user, not to the session: a user who signs in again has the same entry,
// in any browser, before and after the shuffle.
func TestEntryOutlivesTheSession(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.replica(t, dynamotest.Hook{}), k.replica(t, dynamotest.Hook{})
	a.activate(t, false)
	joined := a.join(t, 3)
	own, signedOut := joined[1], room.VisitorIDs{Visitor: "anon-1"}
	for _, r := range []*replica{a, b} {
		r.step(t)
		_, err := r.rooms.Check(t.Context(), event, signedOut, own.RequestID, "")
		require.ErrorIs(t, err, room.ErrSignedOut, "the gateway sends no ticket that is not the caller's")
		got, err := r.rooms.Check(t.Context(), event, room.VisitorIDs{Visitor: "another browser", User: user(1)}, own.RequestID, "")
		require.NoError(t, err)
		require.Equal(t, starts.UnixMilli(), got.LobbyUntil)
	}
	_, err := b.rooms.Check(t.Context(), event, who(2), own.RequestID, "")
	require.ErrorIs(t, err, room.ErrUnknown, "another user")

	a.shuffled(t)
	b.step(t)
	_, err = b.rooms.Check(t.Context(), event, signedOut, own.RequestID, "")
	require.ErrorIs(t, err, room.ErrSignedOut)
	report := b.verify(t, joined)
	for _, ticket := range []string{own.Ticket, ""} {
		got, err := b.rooms.Check(t.Context(), event, room.VisitorIDs{Visitor: "anon-1", User: user(1)}, own.RequestID, ticket)
		require.NoError(t, err)
		require.Equal(t, int64(report.Receipts[1].Rank), got.Position)
	}

	_, err = a.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	_, err = a.rooms.Check(t.Context(), event, signedOut, own.RequestID, "")
	require.ErrorIs(t, err, room.ErrUnknown, "everybody is admitted: there is nothing to sign in for")
}

// After a deactivation everybody is admitted and the shuffle is void. A new round has a new lobby.
func TestDeactivatedLobby(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	first := r.activate(t, true)
	j := join(t, r, 0)
	_, err := r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	r.step(t)
	got, err := r.rooms.Check(t.Context(), event, who(0), j.RequestID, j.Ticket)
	require.NoError(t, err)
	require.True(t, got.Admitted)
	d, _ := r.published(t)
	require.Equal(t, fairdraw.PhaseVoid, d.Phase)
	_, err = fairdraw.Verify(d, nil, fairdraw.Options{Receipts: []string{j.Receipt}})
	require.NoError(t, err)
	require.Empty(t, r.driver.Progress(), "nothing is left to do")

	second := r.activate(t, true)
	require.Greater(t, second.Round, first.Round)
	_, err = r.rooms.Check(t.Context(), event, who(0), j.RequestID, j.Ticket)
	require.ErrorIs(t, err, room.ErrUnknown, "an entry of an earlier round")
	again := join(t, r, 0)
	require.NotEqual(t, j.RequestID, again.RequestID)
	r.shuffled(t)
	r.verify(t, []lobby.JoinResult{again})

	_, err = r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	st, err := r.admin.Activate(t.Context(), event, room.SettingsChange{})
	require.NoError(t, err)
	require.Equal(t, room.Lobby{}, st.Lobby, "a round without a lobby")
	next, err := roomtest.Assign(t.Context(), r.rooms, event, room.VisitorIDs{Visitor: "v"})
	require.NoError(t, err)
	require.Equal(t, int64(1), next.Position)
	_, err = r.lobbies.Join(t.Context(), event, user(0))
	require.ErrorIs(t, err, room.ErrLobbyClosed)
}

// If the room is closed when the beacon's round is known, the result is published all the same.
func TestRoomClosedAfterTheRound(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	joined := r.join(t, 4)
	r.at(t, closes.Add(13*time.Second))
	r.at(t, starts.Add(-time.Minute))
	_, err := r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	r.at(t, starts)
	require.True(t, r.verify(t, joined).Complete)
	require.Empty(t, r.driver.Progress())
}

// A lobby is not voided within 10 s before its beacon round, nor once the value is stored.
func TestNotVoidWhenTheResultMayBeKnown(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	joined := r.join(t, 2)
	r.at(t, closes.Add(13*time.Second))
	r.at(t, starts.Add(-time.Minute-9*time.Second))
	_, err := r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	r.step(t)
	d, _ := r.published(t)
	require.Equal(t, fairdraw.PhaseRoot, d.Phase)
	r.at(t, starts.Add(-time.Minute))
	d, _ = r.published(t)
	require.NotNil(t, d.Beacon)
	r.at(t, starts.Add(-2*time.Minute))
	r.at(t, starts)
	require.True(t, r.verify(t, joined).Complete)
}

// After a deactivation the positions are not in memory. They are computed once for all proofs.
func TestProofsAfterTheDeactivation(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	st := r.activate(t, true)
	joined := r.join(t, 4)
	r.shuffled(t)
	report := r.verify(t, joined)
	_, err := r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	r.step(t)
	for i, j := range joined {
		proof, err := r.lobbies.Proof(t.Context(), latest, j.RequestID)
		require.NoError(t, err)
		require.Equal(t, int64(report.Receipts[i].Rank), proof.Rank)
		require.True(t, r.lobbies.RanksKept(lobby.Key{EventID: event, Round: st.Round}))
	}
}

// A call with a made-up id reads no entry.
func TestMadeUpIDsReadNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var reads atomic.Int64
	r := k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.GetItemInput); ok {
			reads.Add(1)
		}
		return nil
	}})
	r.activate(t, true)
	j := join(t, r, 0)
	before := reads.Load()
	_, err := r.rooms.Check(t.Context(), event, who(0), uuid.New(), "")
	require.ErrorIs(t, err, room.ErrUnknown)
	require.Equal(t, before, reads.Load())
	_, err = r.rooms.Check(t.Context(), event, who(0), j.RequestID, "")
	require.NoError(t, err)
	require.Equal(t, before+1, reads.Load())
}

// Entries are counted only every 30 s, since that reads every group.
func TestEntriesAreCountedSeldom(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var counts atomic.Int64
	r := k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if get, ok := in.(*awsdynamo.BatchGetItemInput); ok && len(get.RequestItems[k.cfg.Prefix+"-vwr-positions"].Keys) > 10 {
			counts.Add(1)
		}
		return nil
	}})
	key := lobby.Key{EventID: event, Round: r.activate(t, true).Round}
	r.step(t)
	join(t, r, 0)
	k.clock.Advance(29 * time.Second)
	r.step(t)
	require.Equal(t, int64(1), counts.Load())
	require.Zero(t, r.driver.Progress()[key].Joined)
	k.clock.Advance(time.Second)
	r.step(t)
	require.Equal(t, int64(2), counts.Load())
	require.Equal(t, int64(1), r.driver.Progress()[key].Joined)
}

// A lobby's terms are validated. While a round runs, only the same terms are accepted.
func TestTerms(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	for name, terms := range map[string]room.LobbyTerms{
		"no start":           {OpensAt: opening},
		"closed already":     {StartsAt: opening.Add(lobby.DefaultLead)},
		"opens when closing": {StartsAt: starts, OpensAt: closes},
		"next year":          {StartsAt: opening.Add(366 * 24 * time.Hour)},
		"not a beacon":       {StartsAt: starts, Beacon: &fairdraw.Beacon{}},
	} {
		_, err := r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: terms})
		require.ErrorIs(t, err, room.ErrInvalidSettings, name)
	}
	r.lobbies.Rekey(lobby.Keys{})
	_, err := r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: r.terms(false)})
	require.ErrorIs(t, err, room.ErrInvalidSettings, "an installation without keys")
	r.lobbies.Rekey(keys(t, "d1:"+secret))

	terms := r.terms(true)
	terms.OpensAt = opening.Add(time.Minute)
	_, err = r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: terms})
	require.NoError(t, err)
	_, err = r.lobbies.Join(t.Context(), event, user(0))
	require.ErrorIs(t, err, room.ErrLobbyClosed, "before it opens")
	k.clock.Advance(time.Minute)
	_, err = r.lobbies.Join(t.Context(), event, user(0))
	require.NoError(t, err)

	_, err = r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: terms})
	require.NoError(t, err, "repeated")
	other := terms
	other.StartsAt = starts.Add(time.Minute)
	_, err = r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: other})
	require.ErrorIs(t, err, room.ErrLobbyFixed)
	other = terms
	chain := *terms.Beacon
	chain.Genesis++
	other.Beacon = &chain
	_, err = r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: other})
	require.ErrorIs(t, err, room.ErrLobbyFixed)
}
