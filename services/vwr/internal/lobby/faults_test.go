package lobby_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// errKilled is the error of a write by a killed replica. The SDK does not retry it.
var errKilled = errors.New("killed")

// killer kills the replica once before and once after each kind of write.
type killer struct {
	mu    sync.Mutex
	kills map[string]int // the number of kills, by update expression
}

// driverWrite returns which write of the driver a call is; empty for other calls.
func driverWrite(in any) string {
	switch in := in.(type) {
	case *awsdynamo.UpdateItemInput:
		return *in.UpdateExpression
	case *awsdynamo.TransactWriteItemsInput: // the driver's only transaction closes the groups
		return *in.TransactItems[0].Update.UpdateExpression
	}
	return ""
}

func (d *killer) dies(in any, at int) error {
	w := driverWrite(in)
	d.mu.Lock()
	defer d.mu.Unlock()
	if w == "" || d.kills[w] != at {
		return nil
	}
	d.kills[w]++
	return errKilled
}

func (d *killer) hook() dynamotest.Hook {
	return dynamotest.Hook{
		Before: func(in any) error { return d.dies(in, 0) },
		After:  func(in, _ any) error { return d.dies(in, 1) },
	}
}

// Replicas die before and after every write, and others without cached data continue. Still there
// is only one shuffle, and everything that was ever published agrees with it.
func TestDeathAtEveryWrite(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	k := newKit(t)
	first := k.replica(t, dynamotest.Hook{})
	first.activate(t, true)
	joined := first.join(t, 6)
	d := &killer{kills: make(map[string]int)}
	var published []*fairdraw.Document
	replicas := 0
	for _, at := range []time.Time{closes.Add(13 * time.Second), starts.Add(-time.Minute), starts} {
		k.clock.Set(at)
		for alive := false; !alive; replicas++ {
			r := k.replica(t, d.hook())
			failures := r.driver.Stats().Failures.Load()
			require.NoError(t, r.advancer.Step(t.Context()))
			require.NoError(t, r.driver.ScanOnce(t.Context()))
			alive = r.driver.Stats().Failures.Load() == failures
			document, _ := first.published(t)
			document.SavedAt = k.clock.Now().UnixMilli()
			published = append(published, document)
		}
	}
	for w, n := range d.kills {
		require.Equal(t, 2, n, w)
	}
	require.Len(t, d.kills, 8, "close, state, size, sign, value, reveal, start, finish")
	require.Greater(t, replicas, 2*len(d.kills))
	c := roomtest.Read(t, first.store, event)
	require.True(t, c.Lobby.Shuffled)
	require.Equal(t, int64(len(joined)), c.Issued, "counted once")
	last := k.replica(t, dynamotest.Hook{})
	last.step(t)
	last.positions(t, joined, last.verify(t, joined, published...))
}

// If joins conflict with the transaction that closes all groups, the groups are closed one by one.
// Closing is repeated for a group that a join is writing.
func TestGroupsAreClosedOneByOneAfterAConflict(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	joining := k.replica(t, dynamotest.Hook{})
	joining.activate(t, true)
	joined := joining.join(t, 3)
	var conflicts, closing atomic.Int64
	r := k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			conflicts.Add(1)
			return &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
		}
		if strings.HasPrefix(driverWrite(in), "SET closed") && closing.Add(1) == 1 {
			return &types.TransactionConflictException{}
		}
		return nil
	}})
	r.shuffled(t)
	require.EqualValues(t, 1, conflicts.Load())
	require.EqualValues(t, 64+1, closing.Load(), "each of the 64 once, and one again")
	r.positions(t, joined, r.verify(t, joined))
}

// A replica that takes over a closed lobby writes no group again, and lists no empty group.
func TestClosedGroupsAreLeftAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	first := k.replica(t, dynamotest.Hook{After: func(in, _ any) error {
		if driverWrite(in) == "" || strings.HasPrefix(driverWrite(in), "SET closed") {
			return nil
		}
		return errKilled
	}})
	joining := k.replica(t, dynamotest.Hook{})
	joining.activate(t, true)
	joined := joining.join(t, 2)
	k.clock.Set(closes.Add(13 * time.Second))
	require.NoError(t, first.driver.ScanOnce(t.Context())) // it dies after it has closed the groups
	var closing, queries atomic.Int64
	second := k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if strings.HasPrefix(driverWrite(in), "SET closed") {
			closing.Add(1)
		}
		if _, ok := in.(*awsdynamo.QueryInput); ok {
			queries.Add(1)
		}
		return nil
	}})
	require.NoError(t, second.advancer.Step(t.Context()))
	require.NoError(t, second.driver.ScanOnce(t.Context()))
	require.Zero(t, closing.Load())
	require.LessOrEqual(t, queries.Load(), int64(len(joined)))
	second.shuffled(t)
	second.verify(t, joined)
}

// Two replicas work on the same lobby at once, while entries arrive until the last moment. The root
// covers every entry with a receipt.
func TestTwoReplicasAndLateEntries(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const late = 40
	var inFlight atomic.Int64
	release := make(chan struct{})
	held := k.replica(t, dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			inFlight.Add(1)
			<-release
		}
		return nil
	}})
	a, b := k.replica(t, dynamotest.Hook{}), k.replica(t, dynamotest.Hook{})
	a.activate(t, true)
	k.clock.Set(closes.Add(-time.Millisecond))
	var work sync.WaitGroup
	results, failures := make([]lobby.JoinResult, late), make([]error, late)
	for i := range late {
		work.Go(func() { results[i], failures[i] = held.lobbies.Join(t.Context(), event, user(i)) })
	}
	testkit.Until(t, func() bool { return inFlight.Load() > 10 }, "joins of many groups are being written")
	k.clock.Set(closes.Add(13 * time.Second))
	both := func(at time.Time) {
		k.clock.Set(at)
		for _, r := range []*replica{a, b} {
			work.Go(func() {
				if err := errors.Join(r.advancer.Step(t.Context()), r.driver.ScanOnce(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
	}
	both(k.clock.Now())
	close(release)
	work.Wait()
	var joined []lobby.JoinResult
	for i, err := range failures {
		if err == nil {
			joined = append(joined, results[i])
		} else {
			require.ErrorIs(t, err, room.ErrLobbyClosed)
		}
	}
	both(starts.Add(-time.Minute))
	work.Wait()
	both(starts)
	work.Wait()
	a.step(t)
	report := b.verify(t, joined)
	require.True(t, report.Complete)
	require.Equal(t, int64(len(joined)), report.Statement.Count, "an entry without a receipt would be nobody's")
}

// While no source of the beacon answers, nobody is served, and later arrivals queue behind the
// entries. Once a source answers, the lobby is shuffled.
func TestBeaconAway(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var away atomic.Bool
	beacon := k.server.Config.Handler
	k.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		beacon.ServeHTTP(w, r)
	})
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	joined := r.join(t, 3)
	r.at(t, closes.Add(13*time.Second))
	away.Store(true)
	r.at(t, starts.Add(time.Minute))
	require.Positive(t, r.driver.Stats().BeaconFailures.Load())
	for _, p := range r.driver.Progress() {
		require.Equal(t, time.Minute, p.Late)
	}
	late, err := roomtest.Assign(t.Context(), r.rooms, event, room.VisitorIDs{Visitor: "late"})
	require.NoError(t, err)
	require.Equal(t, int64(4), late.Position)
	_, err = roomtest.Assign(t.Context(), r.rooms, event, who(0))
	require.ErrorIs(t, err, room.ErrLobbyOpen, "who has joined gets no position behind the others")
	got, err := r.rooms.Check(t.Context(), event, who(0), joined[0].RequestID, joined[0].Ticket)
	require.NoError(t, err)
	require.NotZero(t, got.LobbyUntil)
	require.Zero(t, roomtest.Read(t, r.store, event).Serving)
	away.Store(false)
	r.step(t)
	r.positions(t, joined, r.verify(t, joined))
}

// Without the key of the seed nobody can join, and the shuffle waits for the key. After a day zeros
// are used in place of the seed.
func TestKeyMissing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	joined := r.join(t, 3)
	other := keys(t, "d2:"+secret)
	r.lobbies.Rekey(other)
	_, err := r.lobbies.Join(t.Context(), event, user(9))
	require.ErrorIs(t, err, room.ErrUnavailable)
	for _, at := range []time.Time{closes.Add(13 * time.Second), starts.Add(-time.Minute), starts.Add(time.Hour)} {
		r.at(t, at)
	}
	for _, p := range r.driver.Progress() {
		require.True(t, p.KeyMissing)
	}
	require.False(t, roomtest.Read(t, r.store, event).Lobby.Shuffled)
	r.at(t, starts.Add(25*time.Hour))
	report := r.verify(t, joined)
	require.True(t, report.SeedWithheld)
	require.True(t, report.Complete)
}

// Verification reports every change of published data. pkg/fairdraw tests this in detail.
func TestTamperingIsNamed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	r := k.replica(t, dynamotest.Hook{})
	r.activate(t, true)
	joined := r.join(t, 4)
	r.shuffled(t)
	r.verify(t, joined)
	type document = *fairdraw.Document
	for want, tamper := range map[fairdraw.FaultCode]func(d document, entries *[]byte, o *fairdraw.Options){
		fairdraw.OrderChanged:      func(d document, _ *[]byte, _ *fairdraw.Options) { d.OrderHash = d.CommitmentHash },
		fairdraw.SeedChanged:       func(d document, _ *[]byte, _ *fairdraw.Options) { d.Seed = d.CommitmentHash },
		fairdraw.ValueForged:       func(d document, _ *[]byte, _ *fairdraw.Options) { d.Beacon.Signature = k.beacon.Round(1).Signature },
		fairdraw.EntryRemoved:      func(_ document, e *[]byte, _ *fairdraw.Options) { *e = (*e)[16:] },
		fairdraw.EntryAdded:        func(_ document, e *[]byte, _ *fairdraw.Options) { *e = append(make([]byte, 16), *e...) },
		fairdraw.EntriesChanged:    func(_ document, e *[]byte, _ *fairdraw.Options) { (*e)[len(*e)-1] ^= 1 },
		fairdraw.CommitmentChanged: func(d document, _ *[]byte, _ *fairdraw.Options) { d.CommitmentHash = d.OrderHash },
		fairdraw.ReceiptNotIncluded: func(d document, _ *[]byte, o *fairdraw.Options) {
			_, hash, err := fairdraw.ParseCommitment([]byte(d.Commitment))
			require.NoError(t, err)
			signing, err := fairdraw.ReceiptConfig{DrawReceiptKeys: signing("r")}.Keys()
			require.NoError(t, err)
			denied := fairdraw.Receipt{EventID: event, RequestID: uuid.New(), At: opening.UnixMilli(), Commitment: hash}
			o.Receipts = []string{denied.Sign(signing, signing.Current())}
		},
	} {
		d, entries := r.published(t)
		entries, o := slices.Clone(entries), fairdraw.Options{}
		tamper(d, &entries, &o)
		_, err := fairdraw.Verify(d, entries, o)
		var fault *fairdraw.Fault
		require.ErrorAs(t, err, &fault, want)
		require.Equal(t, want, fault.Code)
	}
}
