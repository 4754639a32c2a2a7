package roomstate_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/roomstate"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// replicas is a fake of several replicas of vwr over one table. A replica that is cut off from the
// table streams what it has read before, and is chosen for calls until it says that it does not
// serve, as long as others do.
type replicas struct {
	mu      sync.Mutex
	rooms   []*vwrv1.Counter
	cut     map[int]time.Time // when a replica was cut off; absent: it is not
	calls   int
	streams map[int]int // open ones by replica
}

const (
	replicaCount = 3
	sayAfter     = 3 * time.Second // how long after the cut a replica says that it is stalled
)

func newReplicas() *replicas { return &replicas{cut: map[int]time.Time{}, streams: map[int]int{}} }

func (c *replicas) lost(i int) (known []*vwrv1.Counter, stalled bool) {
	if at, cut := c.cut[i]; cut {
		return nil, time.Since(at) >= sayAfter
	}
	return c.rooms, false
}

// pick chooses a replica in turn, as the balancer of pkg/rpc does.
func (c *replicas) pick() int {
	serving := 0
	for i := range replicaCount {
		if _, stalled := c.lost(i); !stalled {
			serving++
		}
	}
	for {
		i := c.calls % replicaCount
		c.calls++
		if _, stalled := c.lost(i); !stalled || 2*serving < replicaCount {
			return i
		}
	}
}

func (c *replicas) GetCounters(context.Context, *vwrv1.GetCountersRequest, ...grpc.CallOption) (*vwrv1.GetCountersResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.pick()
	if _, cut := c.cut[i]; cut {
		return nil, errs.ErrUnavailable
	}
	return &vwrv1.GetCountersResponse{Counters: c.rooms}, nil
}

func (c *replicas) WatchCounters(ctx context.Context, _ *vwrv1.WatchCountersRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[vwrv1.WatchCountersResponse], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.pick()
	c.streams[i]++
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.streams[i]--
	})
	return &replicaStream{ctx: ctx, of: c, replica: i}, nil
}

func (c *replicas) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

type replicaStream struct {
	grpc.ClientStream

	ctx     context.Context //nolint:containedctx // the stream's context
	of      *replicas
	replica int
	begun   bool
}

func (s *replicaStream) Recv() (*vwrv1.WatchCountersResponse, error) {
	if s.begun {
		select {
		case <-time.After(time.Second):
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	rooms, stalled := s.of.lost(s.replica)
	msg := &vwrv1.WatchCountersResponse{Counters: rooms, Snapshot: !s.begun, Stalled: stalled}
	s.begun = true
	return msg, nil
}

// A replica that alone loses its store is left within 6 s. A room that was activated meanwhile is
// then known, and from the moment when the replica says that it is stalled nobody passes it.
func TestReplicaThatAloneLosesItsStoreIsLeft(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string][]int{"one of three": {0}, "two of three": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas()
				r := startWatch(t, c)
				synctest.Wait()
				require.True(t, r.Connected())
				c.do(func() {
					for _, i := range cut {
						c.cut[i] = time.Now()
					}
					c.rooms = []*vwrv1.Counter{{EventId: "new", Active: true, Round: 10}}
				})
				began := time.Now()
				for time.Since(began) < 6*time.Second {
					if time.Since(began) >= sayAfter+100*time.Millisecond && r.Settle(t.Context(), "new") == nil {
						require.Equal(t, int64(10), r.ActiveRound("new"), "who passes after %v knows the room", time.Since(began))
					}
					time.Sleep(100 * time.Millisecond)
				}
				synctest.Wait()
				require.True(t, r.Connected())
				require.NoError(t, r.Settle(t.Context(), "new"))
				require.Equal(t, int64(10), r.ActiveRound("new"))
				c.do(func() {
					total := 0
					for i, n := range c.streams {
						total += n
						if _, lost := c.cut[i]; lost {
							require.Zero(t, n, "the replica is left")
						}
					}
					require.Equal(t, 1, total, "no stream is left over")
				})
			})
		})
	}
}

// While no replica reads the store, the stream stays and the last states apply. For a while nobody
// passes for lack of a room, then it is assumed that none is activated.
func TestStoreIsAwayForAllReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas()
		c.rooms = []*vwrv1.Counter{{EventId: "old", Active: true, Round: 10}}
		r := startWatch(t, c)
		synctest.Wait()
		c.do(func() {
			for i := range replicaCount {
				c.cut[i] = time.Now()
			}
		})
		require.NoError(t, r.Settle(t.Context(), "new"))
		time.Sleep(5 * time.Second)
		require.False(t, r.Connected())
		err := r.Settle(t.Context(), "new")
		require.ErrorIs(t, err, errs.ErrUnavailable)
		require.NoError(t, r.Settle(t.Context(), "old"), "an active room is enforced, so nothing is in doubt")
		time.Sleep(7 * time.Second)
		synctest.Wait()
		require.True(t, r.Silent())
		require.NoError(t, r.Settle(t.Context(), "new"))
		require.Equal(t, int64(10), r.ActiveRound("old"))
		c.do(func() { require.Equal(t, 1, c.streams[0], "the first stream stays") })

		c.do(func() { clear(c.cut) })
		time.Sleep(1100 * time.Millisecond)
		require.True(t, r.Connected())
		require.False(t, r.Silent())
	})
}

// A gateway that has started long before it hears of a first replica, which has lost its store,
// does not pass anybody at once: that replica may not know a room which another one has activated.
func TestFirstReplicaIsStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{streams: make(chan *stream, 1)}
		r := startWatch(t, src)
		time.Sleep(time.Minute)
		<-src.streams // given up
		st := <-src.streams
		st.msgs <- &vwrv1.WatchCountersResponse{Snapshot: true, Stalled: true}
		synctest.Wait()
		require.True(t, r.Ready())
		require.ErrorIs(t, r.Settle(t.Context(), "new"), errs.ErrUnavailable)
		time.Sleep(10 * time.Second)
		require.NoError(t, r.Settle(t.Context(), "new"), "vwr is taken for away")
	})
}

// A stream is in doubt before it counts as broken. Whoever waits for certainty passes with the next
// message.
func TestSilentStreamIsInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{streams: make(chan *stream, 1)}
		r := startWatch(t, src)
		st := <-src.streams
		st.msgs <- snapshot()
		time.Sleep(4500 * time.Millisecond)
		require.False(t, r.Connected())
		require.NoError(t, st.ctx.Err())
		settled := make(chan error)
		go func() { settled <- r.Settle(t.Context(), "e") }()
		synctest.Wait()
		st.msgs <- &vwrv1.WatchCountersResponse{Counters: []*vwrv1.Counter{counter(true, 10, 5, 100)}}
		require.NoError(t, <-settled)
		require.Equal(t, int64(10), r.ActiveRound("e"))

		st.fail <- io.EOF
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the client has left"))
		require.Error(t, r.Settle(ctx, "new"))
	})
}

func TestDisabledRoomsAreCertain(t *testing.T) {
	t.Parallel()
	require.NoError(t, roomstate.Disabled().Settle(t.Context(), "new"))
}
