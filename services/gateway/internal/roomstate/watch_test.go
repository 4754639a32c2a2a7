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

// A replica's snapshot lacks a room that was deactivated before the replica started, and a new room
// that the replica has not read yet. Only the vwr service's table tells the two apart.
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

// Events that are requested while the stream is broken are fetched, also unknown ones, since an
// operator may just have activated the room. The number of unknown ids has a limit.
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
		require.Equal(t, []string{"e"}, src.fetches()[1], "known events come first")
		require.Len(t, src.fetches()[2], 100, "the limit of one call")
		time.Sleep(10 * time.Second)
		require.Len(t, src.fetches(), 3, "an event that is no longer requested is not fetched")
	})
}

// A room that was just activated becomes known despite many made-up ids and known events.
func TestRoomActivatedDuringAFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var known []*vwrv1.Counter
		for i := range 150 {
			known = append(known, &vwrv1.Counter{EventId: fmt.Sprint("known-", i), Active: true, Round: 10})
		}
		src := &source{streams: make(chan *stream, 1), counter: counter(true, 10, 5, 100)}
		r := startWatch(t, src)
		first := <-src.streams
		first.msgs <- snapshot(known...)
		synctest.Wait()
		src.streams <- nil // new streams fail
		first.fail <- io.EOF
		synctest.Wait()
		for i := range 1000 {
			r.Get(fmt.Sprint("invented-", i))
		}
		for i := range 1000 {
			r.Get(fmt.Sprint("invented-", 1000+i))
			r.Get("e") // a crowd, half of the requests
			r.Get(fmt.Sprint("known-", i%150))
		}
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, int64(10), r.ActiveRound("e"))
		for _, ids := range src.fetches() {
			require.LessOrEqual(t, len(ids), 100, "the limit of one call")
		}
	})
}

// Events without an active room and a known sale status are forgotten an hour after the last report
// about them.
func TestEndedEventsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{streams: make(chan *stream, 1)}
		r := startWatch(t, src)
		report := func(event string, active bool) *vwrv1.Counter {
			return &vwrv1.Counter{EventId: event, Active: active, Round: 10, Serving: 5}
		}
		st := <-src.streams
		st.msgs <- snapshot(report("active", true), report("ended", true), report("on-sale", true), report("listed", true))
		synctest.Wait()
		r.SetSaleStatuses(map[string]string{"on-sale": "ON_SALE", "ended": "CLOSED"})
		st.msgs <- &vwrv1.WatchCountersResponse{Counters: []*vwrv1.Counter{report("ended", false), report("on-sale", false), report("listed", false)}}
		synctest.Wait()
		r.SetSaleStatuses(map[string]string{"ended": ""})
		reopen := func(after time.Duration) {
			for range after / time.Second {
				time.Sleep(time.Second)
				st.msgs <- &vwrv1.WatchCountersResponse{}
			}
			st.fail <- io.EOF
			st = <-src.streams
			st.msgs <- snapshot(report("active", true), report("listed", false))
			synctest.Wait()
		}
		reopen(50 * time.Minute)
		require.Equal(t, int64(10), r.Get("ended").Round, "replicas may disagree")
		reopen(20 * time.Minute)
		require.Zero(t, r.Get("ended").Round)
		require.Equal(t, int64(10), r.ActiveRound("active"))
		require.Equal(t, "ON_SALE", r.Get("on-sale").Sale)
		require.Equal(t, int64(10), r.Get("listed").Round)
	})
}

// A replica that hangs neither sends messages nor closes the stream. A stream without changes still
// has messages, so one without any is broken.
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
