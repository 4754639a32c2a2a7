package rpc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/testkit"
)

// After an outage of SQS, the waiting requests are sent in the order of application. Requests made
// meanwhile follow them, whichever replica stored them.
func TestOrderAfterTheQueueWasAway(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	away, back := w.replica(t, options{sqsAddr: backendtest.FreeAddr(t)}), w.replica(t, options{})
	event := back.promotion(t)
	var want []string
	for i := range 30 { // in most partitions of markers
		want = append(want, away.applied(t, event, fmt.Sprint("u", i)).GetRequestId())
		w.clock.Advance(time.Millisecond)
	}
	_, err := back.unsent.Refresh(t.Context())
	require.NoError(t, err)
	newcomer := back.applied(t, event, "newcomer")
	require.Equal(t, "RECEIVED", newcomer.GetStatus(), "it is not sent before those who wait")
	require.NoError(t, back.sweeper.Drain(t.Context()))
	want = append(want, newcomer.GetRequestId())

	var got []string
	for _, m := range w.bodies(t) {
		got = append(got, m.RequestID)
	}
	require.Equal(t, want, got)
	require.Equal(t, "QUEUED", back.applied(t, event, "later").GetStatus(), "nobody waits any more")
	require.Len(t, w.ofType(t, "UNSENT_EVENT"), 1)
	w.clock.Advance(7 * time.Second)
	require.NoError(t, back.sweeper.Drain(t.Context()))
	require.Empty(t, w.ofType(t, "UNSENT_EVENT"))
}

// A replica may still hold requests back after the drain. A request that it stores is sent soon.
func TestStrayAfterTheDrain(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	slow, back := w.replica(t, options{sqsAddr: backendtest.FreeAddr(t)}), w.replica(t, options{})
	event := back.promotion(t)
	slow.applied(t, event, "ann")
	require.NoError(t, back.sweeper.Drain(t.Context()))
	stray := slow.applied(t, event, "bob").GetRequestId()
	w.clock.Advance(3 * time.Second)
	require.NoError(t, back.sweeper.Drain(t.Context()))
	require.Equal(t, promotion.Queued, back.request(t, stray).Status)
}

// gate blocks calls to SQS until it is opened.
type gate struct{ open chan struct{} }

// sqsBehind returns the address of a proxy for SQS, in which calls that send wait for the gate.
func (w *environment) sqsBehind(t *testing.T, g *gate) string {
	t.Helper()
	target, err := url.Parse(aws.ToString(w.sqs.Options().BaseEndpoint))
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if strings.HasSuffix(in.Header.Get("X-Amz-Target"), ".SendMessageBatch") {
			<-g.open
		}
		proxy.ServeHTTP(out, in)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// A request whose caller has stopped waiting is still sent before requests that come later.
func TestSlowSendKeepsThePlace(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	g := &gate{open: make(chan struct{})}
	r := w.replica(t, options{sqsAddr: w.sqsBehind(t, g), sendWait: time.Millisecond})
	event := r.promotion(t)
	var waiting []string
	for i := range 30 { // more than fit into the calls in progress
		got := r.applied(t, event, fmt.Sprint("u", i))
		require.Equal(t, "RECEIVED", got.GetStatus())
		waiting = append(waiting, got.GetRequestId())
	}
	close(g.open)
	require.NoError(t, r.sender.Close(context.Background()), "which sends what waits")
	// On a slow machine the wait of a caller may end before it begins. Then Sweep sends the request.
	w.clock.Advance(11 * time.Second)
	require.NoError(t, r.sweeper.Sweep(t.Context()))
	var got []string
	for _, m := range w.bodies(t) {
		if !slices.Contains(got, m.RequestID) {
			got = append(got, m.RequestID)
		}
	}
	require.ElementsMatch(t, waiting, got)
	for _, id := range waiting {
		require.Equal(t, promotion.Queued, r.request(t, id).Status)
	}
}

// A replica that cannot send requests as fast as they come refuses new ones, and stores none.
func TestBusySenderRefuses(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	g := &gate{open: make(chan struct{})}
	r := w.replica(t, options{sqsAddr: w.sqsBehind(t, g)})
	defer close(g.open)
	event := r.promotion(t)
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	defer senders.Wait()
	defer cancel()
	for range 1500 {
		senders.Go(func() { _, _ = r.sender.Send(ctx, promotion.Request{RequestID: uuid.NewString(), EventID: "busy"}) })
	}
	testkit.Until(t, r.sender.Busy)
	require.Equal(t, "OVERLOADED", r.apply(t, event, user("ann")).GetProblem().GetReason())
	require.Empty(t, w.ofType(t, "REQUEST"))
}
