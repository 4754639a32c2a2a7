package lobby_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"urr.guru/pkg/config"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

const (
	secret = "0123456789abcdef0123456789abcdef"
	event  = "concert"
)

// opening is when the lobby opens in most tests; the room starts an hour later.
var (
	opening = time.UnixMilli(1_800_000_000_000)
	starts  = opening.Add(time.Hour)
	closes  = starts.Add(-lobby.DefaultLead)
)

// latest is the key that means the event's latest lobby: it has no round.
var latest = lobby.Key{EventID: event}

// kit has the tables, the clock and the beacon that all replicas of a test share.
type kit struct {
	clock  *testkit.Clock
	cfg    pkgdynamo.Config
	db     *awsdynamo.Client
	beacon *beacontest.Beacon
	server *httptest.Server
	lead   time.Duration
}

func newKit(t *testing.T) *kit {
	t.Helper()
	k := &kit{clock: testkit.NewClock(opening), lead: lobby.DefaultLead}
	k.cfg, k.db = dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), k.db, k.cfg, dynamo.WithPositionIndex))
	var err error
	k.beacon, err = beacontest.New([]byte(secret), beacontest.Options{Now: k.clock.Now})
	require.NoError(t, err)
	k.server = httptest.NewServer(k.beacon)
	t.Cleanup(k.server.Close)
	return k
}

// replica is one replica on the tables of a kit.
type replica struct {
	kit      *kit
	cache    *room.StateCache
	store    *dynamo.Store
	lobbies  *lobby.Service
	driver   *lobby.Driver
	rooms    *room.Service
	admin    *room.Admin
	advancer *room.Advancer
}

// signing returns a configured signing key, made from a repeated character.
func signing(character string) config.Secret {
	return config.Secret("s1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(character, ed25519.SeedSize))))
}

func keys(t *testing.T, drawSecret string) lobby.Keys {
	t.Helper()
	k, err := lobby.ParseKeys(
		fairdraw.KeyConfig{DrawSecret: config.Secret(drawSecret), DrawStatementKeys: signing("k")}, fairdraw.ReceiptConfig{DrawReceiptKeys: signing("r")})
	require.NoError(t, err)
	return k
}

// replica starts a replica whose calls of DynamoDB the hook intercepts. Until the replica is used,
// it may be called by any goroutine.
func (k *kit) replica(t *testing.T, hook dynamotest.Hook) *replica {
	t.Helper()
	r := &replica{kit: k, cache: room.NewStateCache()}
	r.store = dynamo.New(awsdynamo.New(k.db.Options(), hook.Options), k.cfg, k.clock.Now)
	entries := dynamo.NewLobbies(r.store)
	t.Cleanup(func() {
		require.NoError(t, entries.Close(context.Background()))
		require.NoError(t, r.store.Close(context.Background()))
	})
	passes, err := pass.New(secret, secret)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	beacons, err := beacon.NewSources([]string{k.server.URL}, k.server.Client())
	require.NoError(t, err)
	r.lobbies = lobby.NewService(r.cache, r.store, entries.LobbyStore(), passes, keys(t, "d1:"+secret), lobby.Schedule{Lead: k.lead}, beacons, k.clock.Now)
	r.driver = lobby.NewDriver(r.lobbies, entries.LobbyStore(), log)
	claims := roomtest.NewMemory(k.clock.Now)
	r.rooms = room.NewService(r.cache, r.store, r.store, passes, claims, r.lobbies, k.clock.Now, func() float64 { return 0.5 })
	r.admin = room.NewAdmin(r.cache, r.store, roomtest.NewSales().Destinations(), r.lobbies, k.clock.Now)
	r.advancer = room.NewAdvancer(r.cache, r.store, claims, nil, k.clock.Now, log)
	return r
}

// activate starts a round with a lobby, with or without the beacon of the kit.
func (r *replica) activate(t *testing.T, withBeacon bool) room.State {
	t.Helper()
	st, err := r.admin.Activate(t.Context(), event, room.SettingsChange{Lobby: r.terms(withBeacon)})
	require.NoError(t, err)
	return st
}

func (r *replica) terms(withBeacon bool) room.LobbyTerms {
	terms := room.LobbyTerms{StartsAt: starts}
	if withBeacon {
		terms.Beacon = &fairdraw.Beacon{Chain: r.kit.beacon.Chain()}
	}
	return terms
}

// join makes users 0…n-1 join the lobby.
func (r *replica) join(t *testing.T, n int) []lobby.JoinResult {
	t.Helper()
	all := make([]lobby.JoinResult, n)
	for i := range all {
		var err error
		all[i], err = r.lobbies.Join(t.Context(), event, user(i))
		require.NoError(t, err)
	}
	return all
}

func user(i int) string { return fmt.Sprintf("user-%d", i) }

// step runs one step of the replica's Advancer and one scan of its Driver.
func (r *replica) step(t *testing.T) {
	t.Helper()
	require.NoError(t, r.advancer.Step(t.Context()))
	require.NoError(t, r.driver.ScanOnce(t.Context()))
	require.NoError(t, r.advancer.Step(t.Context()))
	require.NoError(t, r.driver.ScanOnce(t.Context()))
}

// at sets the clock, and then calls step.
func (r *replica) at(t *testing.T, at time.Time) {
	t.Helper()
	r.kit.clock.Set(at)
	r.step(t)
}

// shuffled sets the clock to the times of the lobby's steps, until the lobby is shuffled.
func (r *replica) shuffled(t *testing.T) {
	t.Helper()
	for _, at := range []time.Time{closes.Add(13 * time.Second), starts.Add(-time.Minute), starts} {
		r.at(t, at)
	}
	c := roomtest.Read(t, r.store, event)
	require.True(t, c.Lobby.Shuffled)
}

// verify verifies the published document and entries, and the receipts of all who have joined.
func (r *replica) verify(t *testing.T, joined []lobby.JoinResult, earlier ...*fairdraw.Document) *fairdraw.VerificationReport {
	t.Helper()
	d, entries := r.published(t)
	o := fairdraw.Options{Algorithm: fairdraw.AlgorithmShuffle, Earlier: earlier}
	for _, j := range joined {
		o.Receipts = append(o.Receipts, j.Receipt)
	}
	report, err := fairdraw.Verify(d, entries, o)
	require.NoError(t, err)
	return report
}

func (r *replica) published(t *testing.T) (*fairdraw.Document, []byte) {
	t.Helper()
	return r.publishedOf(t, latest)
}

func (r *replica) publishedOf(t *testing.T, k lobby.Key) (*fairdraw.Document, []byte) {
	t.Helper()
	r.kit.clock.Advance(time.Second) // documents are cached for a second
	raw, _, err := r.lobbies.Document(t.Context(), k)
	require.NoError(t, err)
	d, err := fairdraw.ParseDocument(raw)
	require.NoError(t, err)
	if d.Statement == nil {
		return d, nil
	}
	part, err := r.lobbies.Entries(t.Context(), k, 0, 2*lobby.PartSize)
	require.NoError(t, err)
	require.Len(t, part.Bytes, int(part.Total))
	if part.Total > 0 {
		first, err := r.lobbies.Entries(t.Context(), k, 0, 1)
		require.NoError(t, err)
		require.Equal(t, part.Bytes[:1], first.Bytes)
	}
	return d, part.Bytes
}

// who returns a signed-in visitor.
func who(i int) room.VisitorIDs {
	return room.VisitorIDs{Visitor: fmt.Sprintf("anon-%d", i), User: user(i)}
}

// positions runs the check for every entry, and compares the positions with the report.
func (r *replica) positions(t *testing.T, joined []lobby.JoinResult, report *fairdraw.VerificationReport) {
	t.Helper()
	seen := make(map[int64]bool)
	for i, j := range joined {
		got, err := r.rooms.Check(t.Context(), event, who(i), j.RequestID, j.Ticket)
		require.NoError(t, err)
		require.False(t, seen[got.Position], "position %d is there twice", got.Position)
		seen[got.Position] = true
		require.Equal(t, int64(report.Receipts[i].Rank), got.Position)
		require.NotEmpty(t, got.Ticket, "the next poll is answered from memory")
	}
}

func TestMain(m *testing.M) {
	testkit.MainWithoutLeaks(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}
