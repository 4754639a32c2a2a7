package roomstate_test

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// A replica that started after a room was deactivated does not list it. Neither does one that has
// not read a new room yet. Only the table can tell the two apart.
func TestSnapshotWithoutAKnownRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table  *vwrv1.Counter
		active bool
	}{
		"deactivated":    {counter(false, 10, 5, 100), false},
		"just activated": {counter(true, 10, 5, 100), true},
		"missing":        {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				src := &source{streams: make(chan *stream, 1), counter: c.table}
				r := startWatch(t, src)
				first := <-src.streams
				first.msgs <- snapshot(counter(true, 10, 5, 100))
				synctest.Wait()
				require.Empty(t, src.fetched, "every room was listed")
				first.fail <- io.EOF
				second := <-src.streams
				second.msgs <- snapshot()
				synctest.Wait()
				require.Equal(t, [][]string{{"e"}}, src.fetched)
				require.Equal(t, c.active, r.Get("e").Active)
				require.True(t, r.Connected())
			})
		})
	}
}

// Events that are requested while the stream is broken are fetched, including unknown ones: an
// operator may just have activated the room. The number of unknown ids is bounded.
func TestRoomActivatedWhileStreamIsBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{streams: make(chan *stream, 1), counter: counter(true, 10, 5, 100)}
		r := startWatch(t, src)
		first := <-src.streams
		first.msgs <- snapshot()
		synctest.Wait()
		require.Zero(t, r.ActiveRound("e"))
		src.streams <- nil // new streams fail
		first.fail <- io.EOF
		synctest.Wait()
		require.Zero(t, r.ActiveRound("e"))
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, int64(10), r.ActiveRound("e"))
		require.Equal(t, [][]string{{"e"}}, src.fetches())

		for i := range 10_000 {
			r.Get(fmt.Sprint("unknown-", i))
		}
		r.Get("e")
		time.Sleep(time.Second)
		fetched := src.fetches()[1]
		require.Len(t, fetched, 100, "the limit of one call")
		require.Contains(t, fetched, "e", "known events come first")
		time.Sleep(10 * time.Second)
		require.Len(t, src.fetches(), 2, "an event that is no longer requested is not fetched")
	})
}

// A replica that hangs sends nothing and closes nothing. Messages without a change distinguish a
// hanging stream from a quiet one.
func TestSilentStreamIsBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{streams: make(chan *stream, 1), counter: counter(true, 10, 5, 100)}
		r := startWatch(t, src)
		<-src.streams
		time.Sleep(6 * time.Second) // without a snapshot
		first := <-src.streams
		first.msgs <- snapshot(counter(true, 10, 5, 100))
		for range 30 {
			time.Sleep(time.Second)
			first.msgs <- &vwrv1.WatchCountersResponse{}
			require.True(t, r.Connected())
		}
		time.Sleep(6 * time.Second)
		require.Error(t, first.ctx.Err(), "the stream is cancelled, so that another replica is used")
		second := <-src.streams
		require.Equal(t, int64(10), r.ActiveRound("e"), "the last state stays in force")
		second.msgs <- snapshot(counter(true, 10, 6, 100))
		synctest.Wait()
		require.True(t, r.Connected())
		require.Equal(t, int64(6), r.Get("e").Serving)
	})
}
