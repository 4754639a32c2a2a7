package vwrstate_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/gateway/internal/vwrstate"
)

// A replica that started after a room was shut does not list it, and one that has not read a new room yet does not either: only the
// table tells the two apart.
func TestSnapshotWithoutAKnownRoom(t *testing.T) {
	t.Parallel()
	for name, active := range map[string]bool{"shut meanwhile": false, "just opened": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, src := vwrstate.New(), &source{streams: make(chan *stream, 1), counter: counter(active, 10, 5, 100)}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Watch(ctx, src, slog.New(slog.DiscardHandler)) }()
				first := <-src.streams
				first.msgs <- &vwrv1.WatchCountersResponse{Snapshot: true, Counters: []*vwrv1.Counter{counter(true, 10, 5, 100)}}
				synctest.Wait()
				require.Empty(t, src.asked, "every room was listed")
				first.fail <- io.EOF
				second := <-src.streams
				second.msgs <- &vwrv1.WatchCountersResponse{Snapshot: true}
				synctest.Wait()
				require.Equal(t, [][]string{{"e"}}, src.asked)
				require.Equal(t, active, r.Get("e").Active)
				require.True(t, r.Connected())
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}
