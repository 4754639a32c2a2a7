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

// A replica that started after a room was shut does not list it, and one that has not read a new room yet does not either: only the
// table tells the two apart.
func TestSnapshotWithoutAKnownRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table  *vwrv1.Counter
		active bool
	}{
		"shut meanwhile": {counter(false, 10, 5, 100), false},
		"just opened":    {counter(true, 10, 5, 100), true},
		"not there":      {nil, false}, // nobody could ever get a position of it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				src := &source{streams: make(chan *stream, 1), counter: c.table}
				r := watched(t, src)
				first := <-src.streams
				first.msgs <- snapshot(counter(true, 10, 5, 100))
				synctest.Wait()
				require.Empty(t, src.asked, "every room was listed")
				first.fail <- io.EOF
				second := <-src.streams
				second.msgs <- snapshot()
				synctest.Wait()
				require.Equal(t, [][]string{{"e"}}, src.asked)
				require.Equal(t, c.active, r.Get("e").Active)
				require.True(t, r.Connected())
			})
		})
	}
}

// What is asked for while the stream is broken is fetched, also an event that was not known: an operator may just have opened its room.
// Strangers' questions do not pile up.
func TestRoomsOpenedWhileTheStreamIsBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{streams: make(chan *stream, 1), counter: counter(true, 10, 5, 100)}
		r := watched(t, src)
		first := <-src.streams
		first.msgs <- snapshot()
		synctest.Wait()
		require.Zero(t, r.Round("e"))
		src.streams <- nil // nobody answers any more
		first.fail <- io.EOF
		synctest.Wait()
		require.Zero(t, r.Round("e"))
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, int64(10), r.Round("e"))
		require.Equal(t, [][]string{{"e"}}, src.questions())

		for i := range 10_000 {
			r.Get(fmt.Sprint("stranger-", i))
		}
		r.Get("e")
		time.Sleep(time.Second)
		asked := src.questions()[1]
		require.Len(t, asked, 100, "as many as the interface takes")
		require.Contains(t, asked, "e", "known events come first")
		time.Sleep(10 * time.Second)
		require.Len(t, src.questions(), 2, "who is not asked for any more is not fetched")
	})
}

// A replica that hangs sends nothing and closes nothing. Messages without a change tell its silence from a quiet evening.
func TestSilentStreamIsBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{streams: make(chan *stream, 1), counter: counter(true, 10, 5, 100)}
		r := watched(t, src)
		<-src.streams
		time.Sleep(6 * time.Second) // without so much as a snapshot
		first := <-src.streams
		first.msgs <- snapshot(counter(true, 10, 5, 100))
		for range 30 {
			time.Sleep(time.Second)
			first.msgs <- &vwrv1.WatchCountersResponse{}
			require.True(t, r.Connected())
		}
		time.Sleep(6 * time.Second)
		require.Error(t, first.ctx.Err(), "the call is ended, so that another replica answers")
		second := <-src.streams
		require.Equal(t, int64(10), r.Round("e"), "the last state holds")
		second.msgs <- snapshot(counter(true, 10, 6, 100))
		synctest.Wait()
		require.True(t, r.Connected())
		require.Equal(t, int64(6), r.Get("e").Serving)
	})
}
