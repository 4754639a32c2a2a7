package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/testkit"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
	"urr.guru/services/vwr/internal/rpc"
)

// A stream sends a snapshot, then changes, and its values never decrease.
func TestWatchCounters(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.activate(t, &vwrv1.ActivateRequest{})
	ctx, stop := testkit.Context(t)
	defer stop()
	stream, err := d.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	require.NoError(t, err)
	first, err := stream.Recv()
	require.NoError(t, err)
	require.True(t, first.GetSnapshot())
	require.Len(t, first.GetCounters(), 1)
	require.True(t, first.GetCounters()[0].GetActive())
	const people = 60
	assigned := make(chan error, people)
	go func() {
		for i := range people {
			_, err := d.Assign(ctx, &vwrv1.AssignRequest{Items: []*vwrv1.AssignItem{{Caller: visitor(fmt.Sprint(i)), EventId: "demo"}}})
			assigned <- err
		}
	}()
	for last := int64(0); last < people; {
		msg, err := stream.Recv()
		require.NoError(t, err)
		require.False(t, msg.GetSnapshot())
		for _, c := range msg.GetCounters() { // none in a heartbeat
			require.GreaterOrEqual(t, c.GetIssued(), last)
			last = c.GetIssued()
		}
	}
	for range people {
		require.NoError(t, <-assigned)
	}
}

// sent is a message of a stream, with its time since the start of the stream.
type sent struct {
	*vwrv1.WatchCountersResponse

	at time.Duration
}

// streamRecorder is a server stream that records messages without delay.
type streamRecorder struct {
	grpc.ServerStream

	ctx   context.Context //nolint:containedctx // grpc.ServerStream has a Context method
	start time.Time
	sent  chan sent
}

func (r streamRecorder) Context() context.Context { return r.ctx }

func (r streamRecorder) Send(msg *vwrv1.WatchCountersResponse) error {
	r.sent <- sent{msg, time.Since(r.start)}
	return nil
}

// startWatch runs a stream in a testing/synctest bubble until the test ends.
func startWatch(t *testing.T, b *room.StateCache) <-chan sent {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := streamRecorder{ctx: ctx, start: time.Now(), sent: make(chan sent, 1000)}
	done := make(chan error, 1)
	go func() { done <- rpc.NewVisitors(nil, nil, b, slog.New(slog.DiscardHandler)).WatchCounters(nil, r) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return r.sent
}

// An event is sent at most five times a second, however many positions are issued.
func TestWatchCountersLimitsMessageRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := room.NewStateCache()
		b.MarkLoaded()
		messages := startWatch(t, b)
		require.True(t, (<-messages).GetSnapshot())
		for i := range 100 { // one position every 10 ms
			b.Merge(room.Counters{EventID: "demo", Round: 1, Active: true, Issued: int64(i + 1)})
			<-time.After(10 * time.Millisecond)
		}
		for n := range 5 {
			msg := <-messages
			require.Equal(t, time.Duration(n+1)*200*time.Millisecond, msg.at)
			require.Len(t, msg.GetCounters(), 1)
		}
	})
}

// noLoads is a LoadSource whose calls fail.
type noLoads struct{}

func (noLoads) ReadLoad(context.Context, string) (room.TierTwoLoad, error) {
	return room.TierTwoLoad{}, errors.New("away")
}

// An activation or deactivation at one replica reaches the gateways of another within a second, at
// whatever time between two reads it happens.
func TestActivationReachesGatewaysWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, here, there := roomtest.NewMemory(time.Now), room.NewStateCache(), room.NewStateCache()
		operators := room.NewAdmin(here, m, roomtest.NewSales().Destinations(), nil, time.Now)
		advancer := room.NewAdvancer(there, m, m, noLoads{}, time.Now, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- advancer.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-done)
		})
		messages := startWatch(t, there)
		require.True(t, (<-messages).GetSnapshot())
		for i := range 20 {
			time.Sleep(2*time.Second + time.Duration(i)*37*time.Millisecond)
			began, active := time.Now(), i%2 == 0
			var err error
			if active {
				_, err = operators.Activate(t.Context(), "demo", room.SettingsChange{})
			} else {
				_, err = operators.Deactivate(t.Context(), "demo")
			}
			require.NoError(t, err)
			for arrived := false; !arrived; {
				for _, c := range (<-messages).GetCounters() {
					arrived = c.GetActive() == active
				}
			}
			require.LessOrEqual(t, time.Since(began), time.Second)
		}
	})
}

// A stream without changes sends empty messages. Otherwise a gateway would take the replica for
// hanging.
func TestWatchCountersSendsHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := room.NewStateCache()
		b.MarkLoaded()
		messages := startWatch(t, b)
		for i := range 3 {
			msg := <-messages
			require.Equal(t, i == 0, msg.GetSnapshot())
			require.Empty(t, msg.GetCounters())
			require.Equal(t, time.Duration(i)*1200*time.Millisecond, msg.at)
		}
		b.Merge(room.Counters{EventID: "demo", Round: 1, Active: true})
		msg := <-messages
		require.False(t, msg.GetSnapshot())
		require.Len(t, msg.GetCounters(), 1)
		require.True(t, msg.GetCounters()[0].GetActive())
	})
}

// A replica that cannot read its store says so within 3 s, on streams that go on, and says when it
// reads it again.
func TestWatchCountersSaysThatItIsStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, b := roomtest.NewMemory(time.Now), room.NewStateCache()
		advancer := room.NewAdvancer(b, m, m, noLoads{}, time.Now, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- advancer.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-done)
		})
		messages := startWatch(t, b)
		for range 5 {
			require.False(t, (<-messages).GetStalled())
		}
		for _, away := range []bool{true, false} {
			m.SetDown(away)
			changed := time.Now()
			for (<-messages).GetStalled() != away {
			}
			require.LessOrEqual(t, time.Since(changed), 3*time.Second)
			require.Equal(t, away, b.Stale())
		}
	})
}
