package live_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/live"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

// There is one read a second for all listeners of an event, and none without listeners.
func TestOneReadForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		hub := live.NewHub(func(_ context.Context, event string, operator *commonv1.Caller) []byte {
			require.Equal(t, "e", event)
			require.Equal(t, "ann", operator.GetUserId())
			return strconv.AppendInt(nil, reads.Add(1), 10)
		})
		var all []*live.Listener
		for range 10 {
			l, err := hub.Listen("e", &commonv1.Caller{UserId: "ann"})
			require.NoError(t, err)
			all = append(all, l)
		}
		synctest.Wait()
		time.Sleep(3*time.Second + 500*time.Millisecond)
		require.EqualValues(t, 4, reads.Load())
		for _, l := range all {
			require.Equal(t, "4", string(<-l.C), "figures that were not taken are replaced by newer ones")
			l.Leave()
			l.Leave()
		}
		time.Sleep(time.Minute)
		require.EqualValues(t, 4, reads.Load(), "nobody listens")

		late, err := hub.Listen("e", &commonv1.Caller{UserId: "ann"})
		require.NoError(t, err)
		require.Equal(t, "5", string(<-late.C), "a feed that begins again has no old figures")
		second, err := hub.Listen("e", &commonv1.Caller{UserId: "ann"})
		require.NoError(t, err)
		require.Equal(t, "5", string(<-second.C), "at once, without a read")
		hub.End()
		<-hub.Done()
		_, err = hub.Listen("e", nil)
		require.ErrorIs(t, err, errs.ErrUnavailable)
		require.NoError(t, hub.Close(t.Context()))
	})
}

func TestListenersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := live.NewHub(func(context.Context, string, *commonv1.Caller) []byte { return []byte("{}") })
		var last *live.Listener
		for i := range 200 {
			var err error
			last, err = hub.Listen(strconv.Itoa(i%7), nil)
			require.NoError(t, err)
		}
		_, err := hub.Listen("e", nil)
		require.ErrorIs(t, err, errs.ErrOverloaded)
		last.Leave()
		_, err = hub.Listen("e", nil)
		require.NoError(t, err)
		require.NoError(t, hub.Close(t.Context()))
	})
}

// The process stops in time even while a read hangs.
func TestCloseDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hub := live.NewHub(func(context.Context, string, *commonv1.Caller) []byte {
			<-release
			return nil
		})
		_, err := hub.Listen("e", nil)
		require.NoError(t, err)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, hub.Close(ctx))
		close(release)
		require.NoError(t, hub.Close(t.Context()))
	})
}
