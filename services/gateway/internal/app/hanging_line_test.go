package app_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// A line for which the queue service hangs does not delay other lines, nor do made-up event ids.
func TestHangingLineDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.line(calm, epoch, 0)
	w.line("stuck", epoch, 0)
	hanging := func(event string) bool {
		return strings.HasPrefix(event, "stuck") || strings.HasPrefix(event, "made-up")
	}
	var open atomic.Pointer[chan struct{}]
	w.queue.place = func(it *queuev1.LineItem) *queuev1.LineResult {
		if hanging(it.GetEventId()) {
			<-*open.Load()
		}
		return &queuev1.LineResult{Result: &queuev1.LineResult_Place{Place: &queuev1.Place{Status: "queued"}}}
	}
	calls := []struct{ method, path string }{
		{http.MethodPost, "/api/v1/queue/check/"}, {http.MethodGet, "/api/v1/queue/status/"}, {http.MethodPost, "/api/v1/queue/heartbeat/"},
	}
	// Hanging calls end after a time-out. Other calls must not wait for that.
	testkit.Until(t, func() bool {
		gate := make(chan struct{})
		open.Store(&gate)
		var work sync.WaitGroup
		var sent, ended atomic.Int32
		defer work.Wait()
		defer close(gate)
		for i := range 16 { // more than the batches in flight
			for _, event := range []string{"stuck", "made-up-" + strconv.Itoa(i)} {
				for _, c := range calls {
					work.Go(func() {
						sent.Add(1)
						w.do(c.method, c.path+event, "", w.session(mallory))
						ended.Add(1)
					})
				}
			}
		}
		testkit.Until(t, func() bool { return sent.Load() == 16*2*3 }, "the calls are on their way")
		for _, c := range calls {
			require.Equal(t, http.StatusOK, w.do(c.method, c.path+calm, "", w.session(alice)).Code, c.path)
		}
		return ended.Load() == 0
	}, "calls of other lines end first")
}
