package lobby_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// items reads a whole table.
func (k *kit) items(t *testing.T, table string) (all []map[string]types.AttributeValue) {
	t.Helper()
	name := k.cfg.Table(table)
	pages := awsdynamo.NewScanPaginator(k.db, &awsdynamo.ScanInput{TableName: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		all = append(all, page.Items...)
	}
	return all
}

func text(v types.AttributeValue) string {
	s, _ := v.(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// playRound starts a round with a lobby, shuffles the lobby or abandons it, serves
// everybody, and ends the round.
func (r *replica) playRound(t *testing.T, entries int, shuffled bool) {
	t.Helper()
	began := r.kit.clock.Now()
	st, err := r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: room.LobbyTerms{StartsAt: began.Add(time.Hour)}})
	require.NoError(t, err)
	r.join(t, entries)
	if shuffled {
		r.at(t, began.Add(time.Hour-time.Minute))
		r.at(t, began.Add(time.Hour))
		claims, stop := dynamo.NewClaims(r.store), make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		go func() { stop <- claims.Run(ctx) }()
		for i := range 5 { // visitors who come after the start
			a, err := roomtest.Assign(t.Context(), r.rooms, event, room.VisitorIDs{Visitor: user(i) + strconv.FormatInt(int64(st.Round), 10)})
			require.NoError(t, err)
			claims.RecordClaim(a.Record)
		}
		end() // Run then writes the queued claims
		require.NoError(t, <-stop)
	}
	_, err = r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	r.step(t)
	r.step(t)
}

// Everything that a round stores has an expiry time, at which DynamoDB removes it, even if all
// replicas die. Positions and claims are kept for a day, a lobby for 90 days. Counters have one
// item per event, however many rounds there were, and nothing stays in the registries.
func TestEverythingOfARoundExpires(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	began := k.clock.Now()
	for i := range 4 {
		r.playRound(t, 10, i%2 == 0)
	}
	kinds := make(map[string]int)
	for _, it := range k.items(t, "vwr-positions") {
		kind, keep := "position", 24*time.Hour
		switch partition := text(it["eventId"]); {
		case strings.Contains(partition, "#lobby"):
			kind, keep = "lobby", 91*24*time.Hour // counted from the start of the room
		case strings.Contains(partition, "#claims") || strings.HasPrefix(text(it["requestId"]), "claims#"):
			kind = "claims"
		}
		kinds[kind]++
		expires, ok := it["ttl"].(*types.AttributeValueMemberN)
		require.True(t, ok, "%s %s never expires", partition(it), text(it["requestId"]))
		at, err := strconv.ParseInt(expires.Value, 10, 64)
		require.NoError(t, err)
		require.LessOrEqual(t, at, k.clock.Now().Add(keep).Unix(), "%s %s", partition(it), text(it["requestId"]))
		require.GreaterOrEqual(t, at, began.Add(24*time.Hour).Unix(), "%s %s is not kept for a day", partition(it), text(it["requestId"]))
	}
	require.Len(t, kinds, 3, "%v", kinds)
	require.Equal(t, 2*5, kinds["position"])

	counters := k.items(t, "vwr-counters")
	require.LessOrEqual(t, len(counters), 3)
	for _, it := range counters {
		require.NotContains(t, it, "events", "the registry %s after the end of all rounds", partition(it))
	}
}

func partition(it map[string]types.AttributeValue) string { return text(it["eventId"]) }

// The cached terms of ended lobbies are removed, so that the cache does not grow over months.
func TestTermsOfEndedLobbiesAreForgotten(t *testing.T) {
	t.Parallel()
	r := newKit(t).replica(t, dynamotest.Hook{})
	r.activate(t, true)
	r.join(t, 1)
	r.shuffled(t)
	require.Equal(t, 1, r.lobbies.TermsKept(), "its room is open")
	_, err := r.admin.Deactivate(t.Context(), event)
	require.NoError(t, err)
	r.step(t)
	require.Zero(t, r.lobbies.TermsKept())
}
